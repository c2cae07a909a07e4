import { randomUUID } from 'node:crypto';
import { LIMITS } from '@leasehold/keys-core';
import type { ConnectResult } from '@leasehold/keys-core/keys';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { usageFailure } from '../failures/failure.ts';
import { collected, withDuration, withNamespace } from '../options.ts';
import { printable } from '../output/printable.ts';
import { detailsText } from '../output/table.ts';
import type { ConnectInput } from '../views.ts';

const SECOND_MS = 1_000;

interface ConnectOptions {
  readonly namespace: string;
  readonly tag: string;
  readonly program?: string;
  readonly arg: string[];
  readonly env: string[];
  readonly lifetime?: number;
  readonly wait: number;
  readonly datacenter?: string;
}

const HELP = `
Without a name, a --program is started under a key with a random name, which is printed.

A key lives in one datacenter. The first connect with a --program chooses it: the --datacenter of that
connect, or else the datacenter of its controller, or else the nearest whose drones offer the program. Later connects, to any controller, find or start the
backend there. \`leasehold reservations move\` moves a key.`;

/** `leasehold connect`: the one backend of a key, started if none exists, once it is ready. */
export function addConnect(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'connect [name]',
    'Find the backend of a key, or start one, and print its address',
  );
  withDuration(command, '--lifetime', {
    about: 'stop the backend after this time',
    range: [SECOND_MS, LIMITS.lifetimeLimitSecondsMax * SECOND_MS],
  });
  withDuration(command, '--wait', {
    about: 'how long to wait for a key whose backend is stopping',
    range: [0, LIMITS.waitMsMax],
    defaultMs: LIMITS.waitMsConnectDefault,
  });
  withNamespace(command)
    .option('--tag <tag>', 'refuse a backend that was started under another tag', '')
    .option('--program <program>', 'the program to start if nobody holds the key')
    .option(
      '--arg <value>',
      'an argument for the program, if it allows any; repeatable',
      collected,
      [],
    )
    .option(
      '--env <name=value>',
      'a variable for the program, if it allows it; repeatable',
      collected,
      [],
    )
    .option('--datacenter <name>', 'the home of the key, if it has none yet')
    .addHelpText('after', HELP)
    .action(async (name: string | undefined, options: ConnectOptions) => {
      const answer = await cli.client().keys.connect.mutate(connectInput(name, options));
      cli.show(answer, () => connectText(answer));
    });
}

function connectInput(name: string | undefined, options: ConnectOptions): ConnectInput {
  const { namespace, tag, program, arg, env, lifetime, datacenter } = options;
  if (program === undefined && name === undefined) {
    throw usageFailure('Give a key, or a --program to start under a key with a random name.');
  }
  const isOfSpawn = [lifetime, datacenter].some((value) => value !== undefined);
  if (program === undefined && (arg.length > 0 || env.length > 0 || isOfSpawn)) {
    throw usageFailure('--arg, --env, --lifetime and --datacenter need a --program.');
  }
  return {
    // Made here, so that it is in the namespace and under the tag that were asked for.
    key: { name: name ?? randomUUID(), namespace, tag },
    spawn:
      program === undefined
        ? undefined
        : {
            program,
            args: arg,
            env: Object.fromEntries(env.map(variableOf)),
            lifetimeLimitSeconds:
              lifetime === undefined ? undefined : Math.ceil(lifetime / SECOND_MS),
            datacenter,
          },
    waitMs: options.wait,
    waitFor: 'ready',
  };
}

function variableOf(text: string): [name: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1) throw usageFailure(`--env must be NAME=VALUE, not "${text}".`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** The address alone in the first line, so that a shell can take it from there. */
function connectText(answer: ConnectResult): string {
  const { key, address } = answer;
  const rest = detailsText([
    ['key', printable(key.name)],
    ...(key.namespace === '' ? [] : [['namespace', printable(key.namespace)] as const]),
    ...(key.tag === '' ? [] : [['tag', printable(key.tag)] as const]),
    ['backend', `${answer.backendId}, ${answer.spawned ? 'started now' : 'was running'}`],
    ['status', answer.status],
    ['drone', answer.droneId],
    ['datacenter', answer.datacenter],
    ['fencing token', answer.fencingToken],
  ]);
  return `${address ?? 'it has no address'}\n\n${rest}`;
}
