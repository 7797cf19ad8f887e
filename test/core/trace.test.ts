import { describe, expect, it } from 'vitest';
import { isTraceparent, traceparentIn, traceparentOfXRay } from '../../lib/core/trace.ts';
import { TRACEPARENT_CHARS } from '../fixtures/largest.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const GIVEN = `00-${TRACE}-${PARENT}-01`;
/** The example of AWS's documentation. */
const X_RAY = 'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1';
const OF_X_RAY = '00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01';

describe('a traceparent', () => {
  it('has one form, and one length', () => {
    expect(isTraceparent(GIVEN)).toBe(true);
    expect(GIVEN).toHaveLength(TRACEPARENT_CHARS);
    expect(isTraceparent(`00-${TRACE}-${PARENT}-00`)).toBe(true);
    // A version to come, in the form that is known.
    expect(isTraceparent(`cc-${TRACE}-${PARENT}-01`)).toBe(true);
  });

  it.each([
    ['nothing', ''],
    ['the forbidden version', `ff-${TRACE}-${PARENT}-01`],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-${PARENT}-01`],
    ['a parent id of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['upper case', GIVEN.toUpperCase()],
    ['a trace id that is too short', `00-${TRACE.slice(1)}-${PARENT}-01`],
    ['no flags', `00-${TRACE}-${PARENT}`],
    ['more than there is to say', `${GIVEN}-more`],
    ['a line after it', `${GIVEN}\n`],
    ['space around it', ` ${GIVEN}`],
    ['what is no hexadecimal', GIVEN.replace('4', 'g')],
  ])('is not %s', (_, text) => {
    expect(isTraceparent(text)).toBe(false);
  });
});

describe("X-Ray's header", () => {
  it('says the same as a traceparent, in any order and with more beside it', () => {
    expect(traceparentOfXRay(X_RAY)).toBe(OF_X_RAY);
    expect(
      traceparentOfXRay(
        'Self=1-2; Sampled=1; Parent=53995c3f42cd8ad8; Root=1-5759e988-bd862e3fe1be46a994272793; Lineage=a:0',
      ),
    ).toBe(OF_X_RAY);
  });

  it.each(['Sampled=0', 'Sampled=?', ''])(
    'that says "%s" of sampling is of a trace that is not sampled',
    (said) => {
      expect(traceparentOfXRay(X_RAY.replace('Sampled=1', said))).toBe(OF_X_RAY.replace(/01$/, '00'));
    },
  );

  it.each([
    '',
    ';;',
    'Root=1-5759e988-bd862e3fe1be46a994272793',
    'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=0000000000000000;Sampled=1',
    'Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8',
    'Root=1-5759e988bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8',
    'Parent=53995c3f42cd8ad8;Sampled=1',
  ])('that names no trace and parent says nothing: "%s"', (header) => {
    expect(traceparentOfXRay(header)).toBeUndefined();
  });
});

describe('the trace of a process', () => {
  it("is that of Lambda's invocation, before the one that the process was started in", () => {
    expect(traceparentIn({ _X_AMZN_TRACE_ID: X_RAY, TRACEPARENT: GIVEN })).toBe(OF_X_RAY);
    expect(traceparentIn({ TRACEPARENT: GIVEN })).toBe(GIVEN);
    expect(traceparentIn({ _X_AMZN_TRACE_ID: 'Root=;Sampled=0', TRACEPARENT: GIVEN })).toBe(GIVEN);
  });

  it('is none where its environment names none, or not as it should', () => {
    expect(traceparentIn({})).toBeUndefined();
    expect(traceparentIn({ _X_AMZN_TRACE_ID: '', TRACEPARENT: 'trace me' })).toBeUndefined();
  });
});
