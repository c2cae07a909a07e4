import type {
  CommandEnd,
  GuardDeadlines,
  GuardOrder,
  GuardReport,
  StopCause,
} from './guard-protocol.ts';

/** The processes of one command; {@link launchCommand} in production. */
export interface CommandSession {
  readonly pid: number;
  /** Lets the command begin: until then, none of it runs. */
  begin(): void;
  /** Sends a signal to all of them. Nothing happens when none are left. */
  signal(signal: NodeJS.Signals): void;
  /** Fulfilled when the command has ended and the rest of its session is gone. */
  readonly ended: Promise<CommandEnd>;
}

export interface GuardOptions {
  /** Reads the boot clock. */
  readonly nowMs: () => number;
  readonly launch: (
    command: readonly string[],
    environment: Readonly<Record<string, string>>,
  ) => Promise<CommandSession>;
  readonly report: (report: GuardReport) => void;
}

/** Runs one command and ends it in time; see the protocol in `guard-protocol.ts`. */
export class Guard {
  readonly #options: GuardOptions;
  #isStarted = false;
  #session: CommandSession | undefined;
  #deadlines: GuardDeadlines = { softAtMs: -Infinity, hardAtMs: -Infinity };
  #stopping: 'soft' | 'hard' | undefined;
  /** Signals that came before there was a command to send them to. */
  readonly #early: NodeJS.Signals[] = [];

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** Carries out an order. What is due by the clock comes first. */
  take(order: GuardOrder): void {
    this.tick();
    switch (order.type) {
      case 'start':
        void this.#start(order);
        return;
      case 'extend':
        this.#extend(order.deadlines);
        return;
      case 'signal':
        if (this.#session === undefined) this.#early.push(order.signal);
        else this.#session.signal(order.signal);
        return;
      case 'stop':
        this.#stop(order.kind, 'asked');
    }
  }

  /** Stops the command if a deadline has passed. */
  tick(): void {
    const nowMs = this.#options.nowMs();
    if (nowMs >= this.#deadlines.hardAtMs) this.#stop('hard', 'deadline');
    else if (nowMs >= this.#deadlines.softAtMs) this.#stop('soft', 'deadline');
  }

  /** The command line is gone: nobody renews any more. @returns whether a command still runs. */
  orphaned(): boolean {
    this.tick();
    this.#stop('soft', 'orphaned');
    return this.#isStarted;
  }

  async #start(order: GuardOrder & { type: 'start' }): Promise<void> {
    if (this.#isStarted) return;
    const { report, nowMs, launch } = this.#options;
    if (nowMs() >= order.deadlines.softAtMs) {
      report({ type: 'not_started', problem: 'the lease had expired before it could be started' });
      return;
    }
    this.#isStarted = true;
    this.#deadlines = order.deadlines;
    try {
      const session = await launch(order.command, order.environment);
      this.#session = session;
      // It is on its way when this returns: nothing begins that the command line could not end without the guard.
      report({ type: 'started', pid: session.pid });
      // Signals and stops that came during the start have not reached it.
      if (this.#stopping !== undefined) session.signal('SIGKILL');
      session.begin();
      for (const signal of this.#early.splice(0)) session.signal(signal);
      this.tick();
      const end = await session.ended;
      this.#session = undefined;
      report({ type: 'ended', atMs: nowMs(), ...end });
    } catch (error) {
      report({
        type: 'not_started',
        problem: error instanceof Error ? error.message : String(error),
      });
    } finally {
      this.#isStarted = false;
    }
  }

  #extend(deadlines: GuardDeadlines): void {
    if (this.#stopping !== undefined || deadlines.hardAtMs <= this.#deadlines.hardAtMs) return;
    this.#deadlines = deadlines;
  }

  #stop(kind: 'soft' | 'hard', cause: StopCause): void {
    if (!this.#isStarted || this.#stopping === 'hard' || this.#stopping === kind) return;
    this.#stopping = kind;
    this.#options.report({ type: 'stopping', kind, cause });
    if (kind === 'hard') {
      this.#session?.signal('SIGKILL');
      return;
    }
    this.#session?.signal('SIGTERM');
    // A command that Ctrl-Z has stopped gets the signal only when it continues.
    this.#session?.signal('SIGCONT');
  }
}
