import type { ControllerApi } from '@leasehold/client';
import { FAIR_USE_MAX, readLimits, TOKEN_ROLES, type TokenRole } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { usageFailure } from '../../failures/failure.ts';
import { collected, wholeNumberOf } from '../../options.ts';

type TokenRequest = Parameters<ControllerApi['tokens']['create']['mutate']>[0];

interface TokensCreateOptions {
  readonly role: TokenRole;
  readonly namespace: string[];
  readonly program: string[];
  readonly drone?: string;
  readonly capacity?: number;
  readonly address: string[];
  readonly limit?: string;
  readonly expires?: string;
}

/** `leasehold tokens create`: the secret alone in the first line, because it is shown once. */
export function addTokensCreate(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'create <name>', 'Create a token; its secret is shown only once')
    .addOption(
      new Option('--role <role>', 'what it may do').choices(TOKEN_ROLES).makeOptionMandatory(),
    )
    .option(
      '--namespace <namespace>',
      'limit it to a namespace and its children; repeatable',
      collected,
      [],
    )
    .option(
      '--program <program>',
      'the programs that a drone may offer, or a client may start; repeatable',
      collected,
      [],
    )
    .option('--drone <drone>', 'the drone that a token of role drone is for')
    .option('--capacity <n>', 'how many backends that drone may run', wholeNumberOf('--capacity'))
    .option(
      '--address <network>',
      "where that drone's backends may be, such as 10.1.0.0/16:21000-29999; repeatable",
      collected,
      [],
    )
    .option(
      '--limit <limits>',
      'limits that replace those of its role, such as callsPerSecond=100,waiters=10',
    )
    .option('--expires <instant>', 'when it expires (ISO-8601); by default never')
    .action(async (name: string, options: TokensCreateOptions) => {
      const answer = await cli.client().tokens.create.mutate(requestOf(name, options));
      cli.show(
        answer,
        () =>
          `${answer.secret}\n\nThis is the only time that the secret is shown. ` +
          `\`leasehold tokens revoke ${answer.tokenId}\` ends it.`,
      );
    });
}

function requestOf(
  name: string,
  { role, namespace, program, drone, capacity, address, limit, expires }: TokensCreateOptions,
): TokenRequest {
  return {
    ...{ name, role, droneId: drone, capacity, expiresAt: expires },
    ...(namespace.length === 0 ? {} : { namespaces: namespace }),
    ...(program.length === 0 ? {} : { programs: program }),
    ...(address.length === 0 ? {} : { addresses: address }),
    ...(limit === undefined ? {} : { limits: limitsOf(limit) }),
  };
}

function limitsOf(text: string): TokenRequest['limits'] {
  const { limits, problems } = readLimits(text, FAIR_USE_MAX);
  const [problem] = problems;
  if (problem !== undefined) throw usageFailure(`--limit: ${problem}.`);
  return limits;
}
