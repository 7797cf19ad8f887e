/**
 * The trace of a job: W3C Trace Context's `traceparent` (https://www.w3.org/TR/trace-context/, section 3.2). It is
 * passed on unchanged and affects no decision.
 */

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The rule for a `traceparent`, as messages about a wrong one state it. */
export const TRACEPARENT_RULE =
  'must be a W3C traceparent: version, trace id, parent id and flags in lower case, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

/** Whether a text is a `traceparent`: of a known form, with ids that are not all zeros. */
export const isTraceparent = (text: string): boolean => TRACEPARENT.test(text);

/**
 * Returns the `traceparent` of an X-Ray header such as
 * `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`. Undefined for a header without trace or
 * parent. A trace that is not sampled, or not decided yet, counts as not sampled.
 */
export function traceparentOfXRay(header: string): string | undefined {
  const fields = new Map(
    header.split(';').map((field): [string, string] => {
      const at = field.indexOf('=');
      return [field.slice(0, at).trim(), field.slice(at + 1).trim()];
    }),
  );
  const [, seconds = '', rest = ''] = /^1-([0-9a-f]{8})-([0-9a-f]{24})$/.exec(fields.get('Root') ?? '') ?? [];
  const flags = fields.get('Sampled') === '1' ? '01' : '00';
  const traceparent = `00-${seconds}${rest}-${fields.get('Parent') ?? ''}-${flags}`;
  return isTraceparent(traceparent) ? traceparent : undefined;
}

/**
 * Returns the trace of a process, from its environment: X-Ray's variable, which Lambda sets for each invocation, or
 * else `TRACEPARENT`, as OpenTelemetry hands it to processes. Other values are ignored.
 */
export function traceparentIn(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const { _X_AMZN_TRACE_ID: xRay, TRACEPARENT: given } = environment;
  const ofInvocation = xRay === undefined ? undefined : traceparentOfXRay(xRay);
  if (ofInvocation !== undefined) return ofInvocation;
  return given !== undefined && isTraceparent(given) ? given : undefined;
}
