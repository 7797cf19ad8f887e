import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  METRIC_DIMENSION,
  METRICS,
  METRICS_NAMESPACE,
  METRICS_ON_REQUEST,
  type MetricSpec,
} from '../../lib/metrics/names.ts';

/** What CloudWatch takes for a name; EMF refuses the rest without a word. */
const NAME = /^[A-Za-z][A-Za-z0-9]{0,254}$/;

describe('the names of metrics', () => {
  const specs: readonly MetricSpec[] = Object.values(METRICS);

  it('are what CloudWatch takes, and each names one metric', () => {
    const names = specs.map(({ name }) => name);
    for (const name of [METRICS_NAMESPACE, ...Object.values(METRIC_DIMENSION), ...names])
      expect(name).toMatch(NAME);
    expect(new Set(names).size).toBe(names.length);
  });

  it('are told more finely only by what they are told by', () => {
    for (const { by, finer = [] } of specs) expect(by).toEqual(expect.arrayContaining([...finer]));
    // What an alarm looks at is told in any case: alarms ask for no type or tier.
    expect(METRICS.failed).not.toHaveProperty('finer');
  });

  it('differ from every dimension: in a line of the log both are fields of one object', () => {
    const names = new Set(specs.map(({ name }) => name));
    expect(Object.values(METRIC_DIMENSION).filter((dimension) => names.has(dimension))).toEqual([]);
  });
});

it('the page about metrics has a row for each, as it is', () => {
  const page = readFileSync('docs/metrics.md', 'utf8');
  for (const { name, unit, by, description, isOnRequest } of Object.values<MetricSpec>(METRICS)) {
    const narrowed = by.map((scope) => METRIC_DIMENSION[scope]).join(', ') || '–';
    const told = isOnRequest === true ? 'on request' : 'always';
    expect(page).toContain(`| \`${name}\` | ${unit} | ${told} | ${narrowed} | ${description} |`);
  }
  // As they are asked for.
  for (const name of METRICS_ON_REQUEST) expect(page).toContain(`\`${name}\``);
});
