/** Encodes and decodes declarations: an item for each version, and the parts of its text. */
import { declarationTextKey, type ItemKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

/** A version, the hash of its text, and the number of the text's parts. */
export interface DeclarationItem {
  readonly version: number;
  readonly hash: string;
  readonly parts: number;
  readonly declaredAtMs: number;
}

export const encodeDeclaration = (key: ItemKey, declaration: DeclarationItem): Item => ({
  ...key,
  [A.version]: declaration.version,
  [A.hash]: declaration.hash,
  [A.parts]: declaration.parts,
  [A.declaredAtMs]: declaration.declaredAtMs,
});

export function decodeDeclaration(item: Item): DeclarationItem {
  const cells = cellsOf(item);
  return {
    version: cells.count(A.version),
    hash: cells.text(A.hash),
    parts: cells.count(A.parts),
    declaredAtMs: cells.number(A.declaredAtMs),
  };
}

export const encodeDeclarationText = (hash: string, at: number, text: string): Item => ({
  ...declarationTextKey(hash, at),
  [A.text]: text,
});

export const decodeDeclarationText = (item: Item): string => cellsOf(item).text(A.text);
