/** A file that cannot be read: why, and what to do about it. */
export class Unreadable extends Error {
  readonly advice: string;

  constructor(message: string, advice = '') {
    super(message);
    this.name = 'Unreadable';
    this.advice = advice;
  }
}
