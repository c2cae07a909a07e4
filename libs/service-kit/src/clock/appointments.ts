/** What is to be called at a moment, in the order of the moments. */
import TinyQueue from 'tinyqueue';

export interface Appointment {
  readonly atMs: number;
  readonly fn: () => void;
}

/** So many that are over may be left in the queue. */
const LEFT_COUNT_MAX = 1_000;

/** A tick costs what is due, however many others there are. */
export class Appointments {
  readonly #open = new Set<Appointment>();
  #queue = queueOf([]);

  /** How many are neither over nor cancelled. */
  get count(): number {
    return this.#open.size;
  }

  add(atMs: number, fn: () => void): Appointment {
    const appointment = { atMs, fn };
    this.#open.add(appointment);
    this.#queue.push(appointment);
    return appointment;
  }

  /** Takes out all up to this moment. Each is open until {@link end}. */
  takeDue(nowMs: number): Appointment[] {
    const due: Appointment[] = [];
    for (let next = this.#queue.peek(); next !== undefined && next.atMs <= nowMs;) {
      due.push(next);
      this.#queue.pop();
      next = this.#queue.peek();
    }
    return due;
  }

  /** @returns whether it was open. What is cancelled stays in the queue until most of it is of that kind. */
  end(appointment: Appointment): boolean {
    const wasOpen = this.#open.delete(appointment);
    if (this.#queue.length > 2 * this.#open.size + LEFT_COUNT_MAX) {
      this.#queue = queueOf([...this.#open]);
    }
    return wasOpen;
  }
}

function queueOf(appointments: Appointment[]): TinyQueue<Appointment> {
  return new TinyQueue(appointments, (a, b) => a.atMs - b.atMs);
}
