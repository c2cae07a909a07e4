/** Tells the controller which leases this service takes, so that people see them before one is held. */
import { outsideOfWork } from '../context/work-context.ts';
import type { ControllerApi } from '../transport/controller-client.ts';
import type { Machine } from '../machine.ts';
import type { Background } from './background.ts';
import { callWithin } from './wire/calls.ts';
import type { LeaseDefinition } from './lease-definition.ts';

const CALL_MS = 5_000;

export interface DeclarationsDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly background: Background;
}

/** Delays nothing: declarations are sent in the background, and after a failure at the next chance. */
export class Declarations {
  readonly #deps: DeclarationsDeps;
  readonly #declared = new Map<string, LeaseDefinition>();
  readonly #unsent = new Set<LeaseDefinition>();
  #isSending = false;

  constructor(deps: DeclarationsDeps) {
    this.#deps = deps;
  }

  add(definition: LeaseDefinition): void {
    this.#declared.set(definition.namespace.join('.'), definition);
    this.#unsent.add(definition);
    // Declarations that are made while a module loads are sent together.
    queueMicrotask(() => this.send());
  }

  /** Sends all again: the connection is new, and perhaps the controller and its database. */
  sendAll(): void {
    for (const definition of this.#declared.values()) this.#unsent.add(definition);
    this.send();
  }

  /** Sends the declarations that were not sent yet, if any. */
  send(): void {
    const { closing: signal } = this.#deps.background;
    if (this.#isSending || this.#unsent.size === 0 || signal.aborted) return;
    this.#isSending = true;
    const definitions = [...this.#unsent];
    this.#unsent.clear();
    const declarations = definitions.map(({ namespace, ttlMs, description }) => ({
      namespace: [...namespace],
      ttlMs,
      description,
    }));
    const sent = outsideOfWork(() =>
      callWithin(this.#deps.machine, { ms: CALL_MS, signal }, (ending) =>
        this.#deps.api.leases.declare.mutate({ declarations }, { signal: ending.signal }),
      ),
    );
    this.#deps.background.add(
      sent
        .catch(() => {
          for (const definition of definitions) this.#unsent.add(definition);
        })
        .finally(() => {
          this.#isSending = false;
        }),
    );
  }
}
