// The calculator, with the library that it needs: fetched when a model first calculates.
import { all, create } from 'mathjs/number';

const { evaluate } = create(all ?? {});

/** Most characters of an expression. */
const MOST = 500;

/** The value of an expression, rounded to reliable digits. */
export function calculate(expression: string): number {
  if (expression.length > MOST) throw new Error(`the expression has more than ${MOST} characters`);
  // Notations of people and models.
  const written = expression
    .replace(/[×·]/g, '*')
    .replace(/÷/g, '/')
    .replace(/[−–]/g, '-')
    .replace(/\*\*/g, '^')
    .replace(/=\s*$/, '');
  // No definitions, repetitions or access to objects: arithmetic needs none.
  if (/[=;:\n"'`[\]{}]/.test(written)) throw new Error('the expression is no arithmetic');
  const value: unknown = evaluate(written);
  if (typeof value !== 'number') throw new Error('the expression is no arithmetic with a number as its result');
  if (!Number.isFinite(value)) throw new Error('the result is no finite number');
  return Number(value.toPrecision(15));
}
