/** What is due at a moment, in the order of the moments. */
import TinyQueue from 'tinyqueue';

export interface Appointment<What> {
  readonly atMs: number;
  readonly what: What;
}

/** So many that are over may be left in the queue. */
const LEFT_COUNT_MAX = 1_000;

/** A tick costs what is due, however many others there are. */
export class Appointments<What> {
  readonly #open = new Set<Appointment<What>>();
  #queue = queueOf<What>([]);

  /** How many are neither over nor cancelled. */
  get count(): number {
    return this.#open.size;
  }

  add(atMs: number, what: What): Appointment<What> {
    const appointment = { atMs, what };
    this.#open.add(appointment);
    this.#queue.push(appointment);
    return appointment;
  }

  /** Takes out all up to this moment. Each is open until {@link end}. */
  takeDue(nowMs: number): Appointment<What>[] {
    const due: Appointment<What>[] = [];
    for (let next = this.#queue.peek(); next !== undefined && next.atMs <= nowMs;) {
      due.push(next);
      this.#queue.pop();
      next = this.#queue.peek();
    }
    return due;
  }

  /** @returns whether it was open. What is cancelled stays in the queue until most of it is of that kind. */
  end(appointment: Appointment<What>): boolean {
    const wasOpen = this.#open.delete(appointment);
    if (this.#queue.length > 2 * this.#open.size + LEFT_COUNT_MAX) {
      this.#queue = queueOf([...this.#open]);
    }
    return wasOpen;
  }
}

function queueOf<What>(appointments: Appointment<What>[]): TinyQueue<Appointment<What>> {
  return new TinyQueue(appointments, (a, b) => a.atMs - b.atMs);
}
