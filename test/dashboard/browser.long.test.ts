/** The dashboard in a real browser: looks, keyboard, narrow screens, hostile names, and pages of other sites. */
import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { buildPage } from '../../build-page.ts';
import type { Dashboard } from '../../lib/dashboard/server.ts';
import { desk } from '../client/desk.ts';
import { aBrowser, FOREIGN, type OpenOptions, opened } from './browser.ts';
import { type ShownPool, served, shownPool } from './scene.ts';

const folder = join(tmpdir(), `fairlead-page-${process.pid}-long`);
const HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>\'';

let browser: Browser;
beforeAll(async () => {
  await buildPage(folder);
  browser = await aBrowser();
});
afterAll(async () => {
  await browser.close();
  await rm(folder, { recursive: true });
});

async function visit(
  scene: Pick<ShownPool, 'client' | 'time'>,
  options: OpenOptions = {},
  own: Parameters<typeof served>[2] = { write: true },
) {
  const dashboard: Dashboard = await served(scene, folder, own);
  const visitor = await opened(browser, dashboard.link, { nowMs: scene.time.nowMs, ...options });
  onTestFinished(async () => {
    await visitor.context.close();
    await dashboard.close();
  });
  const origin = new URL(dashboard.link).origin;
  const go = async (path: string): Promise<void> => {
    await visitor.page.goto(origin + path);
    await visitor.page.locator('h1').waitFor();
    await visitor.page.waitForLoadState('networkidle');
  };
  return { ...visitor, origin, go };
}

const screensOf = ({ waiting, retried, failed, running }: ShownPool): readonly string[] => [
  '/',
  '/keys',
  '/jobs',
  '/jobs?state=running',
  '/jobs?state=failed',
  `/jobs/${waiting}`,
  `/jobs/${retried}`,
  `/jobs/${failed}`,
  `/jobs/${running[0]?.job.id}`,
  '/limits',
  '/fleets',
  '/schedules',
  '/schedules?id=clean-up',
  '/failures',
];

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
}

/** What axe finds fault with on the page, by the rules of WCAG 2.2 AA and its good practices. */
async function findingsOn(page: Page): Promise<readonly string[]> {
  const found = await page.evaluate<readonly Finding[]>(`${axe.source};
    axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((each) => each.violations)`);
  return found.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map((node) => `${node.target.join(' ')} ${node.failureSummary}`).join('; ')}`,
  );
}

/** What stands out of the screen to the right, where the page can be scrolled to it. */
const overflowOf = (page: Page): Promise<readonly string[]> =>
  page.evaluate<readonly string[]>(`(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    return [...document.querySelectorAll('main *, header *')]
      .filter((each) => each.getBoundingClientRect().right > clientWidth + 1)
      .map((each) => each.tagName + '.' + each.className + ' ' + each.textContent.slice(0, 40));
  })()`);

/** Buttons of tables that break within a word. */
const brokenButtonsOf = (page: Page): Promise<readonly string[]> =>
  page.evaluate<readonly string[]>(`[...document.querySelectorAll('td button')]
    .filter((each) => !each.textContent.includes(' ') && each.clientHeight > 40)
    .map((each) => each.textContent)`);

describe.each(['light', 'dark'] as const)('in the %s theme', (colorScheme) => {
  it('each screen shows what it should, and axe finds nothing', async () => {
    const scene = await shownPool();
    const { page, go, problems } = await visit(scene, { colorScheme });
    for (const path of screensOf(scene)) {
      await go(path);
      expect({ path, findings: await findingsOn(page) }).toEqual({ path, findings: [] });
      expect(await page.getByRole('alert').count()).toBe(0);
    }
    await go('/jobs');
    await page.getByRole('button', { name: 'Cancel all that match' }).click();
    await page.getByText('would be cancelled').waitFor();
    expect(await findingsOn(page)).toEqual([]);
    expect(problems).toEqual([]);
  });
});

describe('the screens', () => {
  it('fit 320 pixels, with all that they show', async () => {
    const hostile = 'W'.repeat(60);
    const scene = await shownPool({ hostile });
    // The shares of the other keys have a fraction then, as they have among hundreds of keys.
    await scene.client.override({ fairnessKey: `tenant-1${hostile}` }, { weight: 250 });
    const { page, go } = await visit(scene, { width: 320 });
    for (const path of screensOf(scene)) {
      await go(path);
      expect({ path, overflow: await overflowOf(page) }).toEqual({ path, overflow: [] });
      expect({ path, broken: await brokenButtonsOf(page) }).toEqual({ path, broken: [] });
    }
  });

  it('run no script of a name, a payload or an error, and show it as text', async () => {
    const scene = await shownPool({ hostile: HOSTILE });
    const { page, go, problems } = await visit(scene);
    for (const path of screensOf(scene)) {
      await go(path);
      expect(await page.locator('img:not([src="/assets/icon.svg"]), main script').count()).toBe(0);
    }
    await go('/failures');
    expect(await page.locator('main').textContent()).toContain(HOSTILE);
    expect(problems).toEqual([]);
  });

  it('say what is up in one line, and load the chart nowhere else', async () => {
    const { page, go } = await visit(await shownPool());
    await page.getByText('Fleet gpu full, type transcode at the cap, nothing late.').waitFor();
    await page.getByRole('img', { name: /Scheduling delay, in seconds; now 95 of 100: [\d.]+ s/ }).waitFor();
    await page.getByRole('img', { name: /Jobs a minute; now started: \d+/ }).waitFor();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await go('/limits');
    expect(asked.filter((url) => url.includes('/assets/chart'))).toEqual([]);
  });

  it('change nothing, and offer no change, to a reader', async () => {
    const scene = await shownPool();
    const { page, go } = await visit(scene, {}, {});
    await go(`/jobs/${scene.waiting}`);
    await page.getByText('Read-only').waitFor();
    expect(await page.getByRole('button').allTextContents()).toEqual(['Open']);
  });
});

it('with the keyboard alone, a waiting job is found, its wait read, and the job cancelled', async () => {
  const scene = await shownPool();
  const { page } = await visit(scene);
  /** Moves on until the element with this text has the focus. */
  const tabTo = async (text: string): Promise<void> => {
    for (let at = 0; at < 80; at += 1) {
      await page.keyboard.press('Tab');
      const focused = await page.evaluate<string>(
        '(document.activeElement.title || document.activeElement.textContent).trim()',
      );
      if (focused === text) return;
    }
    throw new Error(`${text} is not reached`);
  };
  await tabTo('Jobs');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  await page.getByText('7 pending').waitFor();
  await tabTo(scene.waiting);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Why it waits' }).waitFor();
  expect(await page.locator('.reasons').textContent()).toMatch(/^Job .* holds album\/summer\.$/);
  await tabTo('Cancel the job');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Cancel the job?' }).waitFor();
  await page.keyboard.press('Escape');
  // Not by its role, which a closed dialog loses before the page takes it away.
  await page.locator('dialog').waitFor({ state: 'detached' });
  expect((await scene.client.get(scene.waiting)).state).toBe('pending');
  // The focus is back where it was.
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await tabTo('Cancel it');
  await page.keyboard.press('Enter');
  await page.getByText('It is cancelled.').waitFor();
  await tabTo('Done');
  await page.keyboard.press('Enter');
  await page.locator('.job-head .state-cancelled').waitFor();
  expect((await scene.client.history(scene.waiting)).events.at(-1)).toMatchObject({
    kind: 'cancelled',
    by: 'arn:aws:iam::111122223333:user/ada',
  });
});

describe('a change of all jobs that match', () => {
  it('is counted before, follows the address, and says what it did', async () => {
    const scene = await shownPool();
    const { page, go } = await visit(scene);
    await go('/jobs?state=pending&type=transcode');
    await page.getByText('5 pending').waitFor();
    await page.getByRole('button', { name: 'Cancel all that match' }).click();
    await page.getByText('5 jobs match now, and would be cancelled.').waitFor();
    await page.getByRole('button', { name: 'Yes, up to 1,000 of them' }).click();
    await page.getByText('5 jobs were cancelled.').waitFor();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByText('No job is pending with this filter.').waitFor();
    expect((await scene.client.get(scene.waiting)).state).toBe('pending');
  });

  it('redrives the failures of one error', async () => {
    const scene = await shownPool();
    const { page, go } = await visit(scene);
    await go('/failures');
    await page.getByRole('button', { name: 'Redrive SmtpRefused of mail' }).click();
    await page.getByText('7 jobs match now').waitFor();
    await page.getByRole('button', { name: 'Yes, up to' }).click();
    await page.getByText('7 jobs were tried again').waitFor();
    expect((await scene.client.get(scene.failed)).redrivenAs).toBeDefined();
  });
});

describe('a page of another site', () => {
  it('reaches nothing under its own name, which resolves to this machine', async () => {
    const { context, origin } = await visit(await shownPool());
    const page = await context.newPage();
    const answer = await page.goto(`http://${FOREIGN}:${new URL(origin).port}/`);
    expect(answer?.status()).toBe(421);
  });

  it('reads nothing and changes nothing, although the browser holds a session', async () => {
    const scene = await shownPool();
    const { context, origin } = await visit(scene);
    const site = createServer((_, response) =>
      response.setHeader('content-type', 'text/html').end('<p>hello'),
    );
    await new Promise<void>((resolve) => {
      site.listen(0, '127.0.0.1', resolve);
    });
    onTestFinished(() => void site.close());
    const address = site.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const before = scene.everything();
    // Another site, and another port of the same one, to which cookies are sent.
    for (const name of [FOREIGN, '127.0.0.1']) {
      const page = await context.newPage();
      await page.goto(`http://${name}:${port}/`);
      const tried = await page.evaluate<readonly string[]>(`Promise.all([
        fetch('${origin}/api/jobs?state=pending', { credentials: 'include' }),
        fetch('${origin}/api/jobs/${scene.waiting}/cancel', { method: 'POST', credentials: 'include',
          headers: { 'content-type': 'application/json', 'x-fairlead-dashboard': '1' }, body: '{}' }),
        fetch('${origin}/api/jobs/${scene.waiting}/cancel', { method: 'POST', credentials: 'include',
          headers: { 'content-type': 'text/plain' }, body: '{}' }),
      ].map((each) => each.then((answer) => 'answered ' + answer.status, () => 'refused')))`);
      expect(tried).toEqual(['refused', 'refused', 'refused']);
      const blind = await page.evaluate<string>(`fetch('${origin}/api/jobs/${scene.waiting}/cancel', {
        method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }).then(() => 'answered', () => 'refused')`);
      expect(blind).toBe('refused');
      // A form, as any page may send it.
      await page.setContent(
        `<form method="post" enctype="text/plain" action="${origin}/api/jobs/${scene.waiting}/cancel"><button>Go</button></form>`,
      );
      await page.getByRole('button').click();
      await page.waitForURL(/cancel$/);
      expect(await page.locator('body').textContent()).toContain('another origin');
    }
    expect(scene.everything()).toBe(before);
  });
});

it('paints within a second with 100,000 jobs', async () => {
  const scene = desk();
  const jobs = Array.from({ length: 100_000 }, (_, at) =>
    scene.job({ type: 'resize', fairnessKey: `key-${at % 50}` }),
  );
  for (let from = 0; from < jobs.length; from += 1_000) await scene.put(...jobs.slice(from, from + 1_000));
  const { page, go } = await visit(scene, { nowMs: undefined });
  for (const [path, shown] of [
    ['/', /\d{3,}\+/],
    ['/jobs', /1,000\+ pending/],
    ['/keys', /1,000\+/],
  ] as const) {
    await go(path);
    await page.getByText(shown).first().waitFor();
    const paintMs = await page.evaluate<number>(
      "performance.getEntriesByName('first-contentful-paint')[0].startTime",
    );
    console.log(`${path}: first paint after ${Math.round(paintMs)} ms`);
    expect(paintMs).toBeLessThan(1_000);
  }
});

it('ends with a hint when the link was used before', async () => {
  const scene = await shownPool();
  const dashboard = await served(scene, folder);
  onTestFinished(() => dashboard.close());
  const first = await opened(browser, dashboard.link, { nowMs: scene.time.nowMs });
  const second = await opened(browser, dashboard.link, { nowMs: scene.time.nowMs });
  expect(await first.page.evaluate('location.hash')).toBe('');
  expect(await first.page.locator('h1').textContent()).toBe('Now');
  expect(await second.page.getByRole('alert').textContent()).toContain('there is no session');
  await Promise.all([first.context.close(), second.context.close()]);
});
