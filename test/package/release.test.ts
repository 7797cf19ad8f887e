import { describe, expect, it } from 'vitest';
import { objectionsTo } from './release.ts';

describe('a release', () => {
  const changelog = '# Changelog\n\n## Unreleased\n\n## 1.2.0\n\n- More.\n';

  const repository = { type: 'git', url: 'git+https://example.com/fairlead.git' };

  it('is published under the tag of its version, once the changelog tells of it', () => {
    expect(objectionsTo('v1.2.0', { version: '1.2.0', repository }, changelog)).toEqual([]);
  });

  it('is refused under another tag, without one, and when nothing tells of it', () => {
    expect(objectionsTo('v1.2.1', { version: '1.2.0', repository }, changelog)).toEqual([
      'the tag is v1.2.1, and package.json says 1.2.0',
    ]);
    expect(objectionsTo('', { version: '1.2.0', repository }, changelog)).toHaveLength(1);
    expect(objectionsTo('v1.3.0', { version: '1.3.0', repository }, changelog).join()).toContain(
      'no heading "## 1.3.0"',
    );
  });

  it('is refused as long as nobody can tell where it comes from', () => {
    expect(objectionsTo('v1.2.0', { version: '1.2.0' }, changelog).join()).toContain('names no repository');
  });
});
