/** A chart of values over time. */
import { useEffect, useRef } from 'preact/hooks';
import UPlot from 'uplot';

export interface Series {
  readonly label: string;
  /** The name of a colour of the style sheet. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
}

const HEIGHT = 170;

export function Chart({
  label,
  atSec,
  series,
  unit,
  least = 4,
}: {
  readonly label: string;
  readonly atSec: readonly number[];
  readonly series: readonly Series[];
  readonly unit: string;
  /** The least value at the upper end of the axis. */
  readonly least?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<UPlot>(undefined);
  const data: UPlot.AlignedData = [[...atSec], ...series.map(({ values }) => [...values])];
  const latest = useRef(data);
  latest.current = data;
  const names = series.map((each) => each.label).join('\n');
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const draw = (): void => {
      chart.current?.destroy();
      const style = getComputedStyle(element);
      const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
      const axis = {
        stroke: colour('muted'),
        grid: { stroke: colour('line'), width: 1 },
        ticks: { show: false },
        font: '12px system-ui, sans-serif',
      };
      chart.current = new UPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: false },
          scales: { y: { range: (_, __, most) => [0, Math.max(least, most * 1.15)] } },
          axes: [
            { ...axis, space: 80, values: '{HH}:{mm}:{ss}' },
            {
              ...axis,
              size: 48,
              incrs: [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000],
            },
          ],
          series: [
            {},
            ...series.map((each) => ({
              label: each.label,
              stroke: colour(each.colour),
              width: 2,
              fill: `${colour(each.colour)}22`,
              points: { show: (plot: UPlot) => plot.data[0].length < 2 },
              spanGaps: true,
            })),
          ],
        },
        latest.current,
        element,
      );
    };
    draw();
    const sizes = new ResizeObserver(() =>
      chart.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    sizes.observe(element);
    const theme = matchMedia('(prefers-color-scheme: dark)');
    theme.addEventListener('change', draw);
    return () => {
      sizes.disconnect();
      theme.removeEventListener('change', draw);
      chart.current?.destroy();
      chart.current = undefined;
    };
  }, [names]);
  useEffect(() => chart.current?.setData(data));
  const said = series
    .map((each) =>
      `${each.label}: ${each.values.findLast((value) => value !== null) ?? 'unknown'} ${unit}`.trim(),
    )
    .join(', ');
  return (
    <figure class="chart">
      <figcaption>
        {label}
        <span class="legend">
          {series.map((each) => (
            <span key={each.label}>
              <span class={`swatch swatch-${each.colour}`} aria-hidden="true" /> {each.label}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${label}; now ${said}`} />
    </figure>
  );
}
