/** A real browser for tests of the dashboard. */
import chromium from '@sparticuz/chromium';
import { type Browser, type BrowserContext, type Page, chromium as playwright } from 'playwright-core';

/** A name of another site, which resolves to this machine. */
export const FOREIGN = 'foreign.test';

/**
 * Starts the browser. The package's own arguments switch off what these tests are about, such as the rule of one
 * origin.
 */
export const aBrowser = async (): Promise<Browser> =>
  playwright.launch({
    args: [
      '--no-sandbox',
      '--headless=shell',
      '--disable-gpu',
      '--font-render-hinting=none',
      `--host-resolver-rules=MAP ${FOREIGN} 127.0.0.1`,
    ],
    executablePath: await chromium.executablePath(),
  });

export interface OpenOptions {
  readonly colorScheme?: 'light' | 'dark';
  readonly width?: number;
  /** What the page's clock shows at first. @default - the machine's clock, and what the browser measures by it */
  readonly nowMs?: number | undefined;
}

export interface Opened {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Errors of scripts, and what the browser refused to do. */
  readonly problems: readonly string[];
}

/** Opens the link in a browser with a fresh state. */
export async function opened(
  browser: Browser,
  link: string,
  { colorScheme = 'light', width = 1280, nowMs }: OpenOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({
    colorScheme,
    viewport: { width, height: 860 },
    locale: 'en-GB',
    timezoneId: 'UTC',
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('dialog', (dialog) => {
    problems.push(`a dialog says ${dialog.message()}`);
    void dialog.dismiss();
  });
  if (nowMs !== undefined) {
    await page.clock.install({ time: nowMs });
    await page.clock.resume();
  }
  await page.goto(link);
  await page.locator('h1').waitFor();
  return { context, page, problems };
}
