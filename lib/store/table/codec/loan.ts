/** Encodes and decodes loans between partitions, and requests for them. */
import type { LentScope, Loan, LoanRequest, Want } from '../../../core/lending.ts';
import { loanKey, requestKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, textIn, ttlSec } from './cells.ts';

export const encodeLoan = (partition: number, loan: Loan): Item => ({
  ...loanKey(partition, loan.loanId),
  [A.loanId]: loan.loanId,
  [A.lender]: loan.from,
  [A.borrower]: loan.to,
  [A.units]: loan.units,
  [A.scopes]: JSON.stringify(
    loan.scopes.map(({ scope, under, fleet }) =>
      fleet === undefined ? [scope, under] : [scope, under, fleet],
    ),
  ),
  [A.expiresAtMs]: loan.expiresAtMs,
});

export function decodeLoan(item: Item): Loan {
  const cells = cellsOf(item);
  return {
    loanId: cells.text(A.loanId),
    from: cells.count(A.lender),
    to: cells.count(A.borrower),
    units: cells.count(A.units),
    scopes: cells.packed(A.scopes, unpackScopes),
    expiresAtMs: cells.number(A.expiresAtMs),
  };
}

const unpackScopes = (packed: unknown): readonly LentScope[] =>
  (packed as readonly (readonly unknown[])[]).map(([scope, under, fleet]) => ({
    scope: textIn(scope),
    under: textIn(under),
    ...(fleet === undefined ? {} : { fleet: textIn(fleet) }),
  }));

/** Encodes a request, which may be garbage collected when it expires. */
export const encodeRequest = (partition: number, request: LoanRequest): Item => ({
  ...requestKey(partition, request.partition),
  [A.borrower]: request.partition,
  [A.wants]: JSON.stringify(request.wants.map(({ units, scopes, fleets }) => [units, scopes, fleets])),
  [A.askedAtMs]: request.askedAtMs,
  [A.untilMs]: request.untilMs,
  [A.ttl]: ttlSec(request.untilMs),
});

export function decodeRequest(item: Item): LoanRequest {
  const cells = cellsOf(item);
  return {
    partition: cells.count(A.borrower),
    wants: cells.packed(A.wants, unpackWants),
    askedAtMs: cells.number(A.askedAtMs),
    untilMs: cells.number(A.untilMs),
  };
}

const unpackWants = (packed: unknown): readonly Want[] =>
  (packed as readonly (readonly [unknown, readonly unknown[], readonly unknown[]])[]).map(
    ([units, scopes, fleets]) => {
      if (!Number.isSafeInteger(units)) throw new TypeError(`${JSON.stringify(units)} is not a whole number`);
      return { units: Number(units), scopes: scopes.map(textIn), fleets: fleets.map(textIn) };
    },
  );
