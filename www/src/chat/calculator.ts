// The calculator, with the library that it needs: fetched when a model first calculates.
import { all, create } from 'mathjs/number';

const { evaluate } = create(all ?? {});

/** Most characters of an expression. */
const MOST = 500;

/** What an expression comes to: a number, to the digits that can be trusted. */
export function calculate(expression: string): number {
  if (expression.length > MOST) throw new Error(`the expression has more than ${MOST} characters`);
  // As people and models write it.
  const written = expression
    .replace(/[×·]/g, '*')
    .replace(/÷/g, '/')
    .replace(/[−–]/g, '-')
    .replace(/\*\*/g, '^')
    .replace(/=\s*$/, '');
  // Nothing that defines, repeats or looks into objects: sums have none of it.
  if (/[=;:\n"'`[\]{}]/.test(written)) throw new Error('the expression is no arithmetic');
  const value: unknown = evaluate(written);
  if (typeof value !== 'number') throw new Error('the expression is no arithmetic with a number as its result');
  if (!Number.isFinite(value)) throw new Error('the result is no finite number');
  return Number(value.toPrecision(15));
}
