/** See `lock.mjs`. */
export declare function withLock<T>(
  path: string,
  options: {
    readonly waitMs: number;
    readonly onWait?: (pid: string) => void;
    readonly signal?: AbortSignal | undefined;
  },
  action: () => Promise<T>,
): Promise<T>;
