import { TOKEN_ROLES, type TokenRole } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { collected } from '../../options.ts';

interface TokensCreateOptions {
  readonly role: TokenRole;
  readonly namespace: string[];
  readonly drone?: string;
  readonly expires?: string;
}

/** `leasehold tokens create`: the secret alone in the first line, because it is shown once. */
export function addTokensCreate(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'create <name>', 'Make a token; its secret is shown this once')
    .addOption(
      new Option('--role <role>', 'what it may do').choices(TOKEN_ROLES).makeOptionMandatory(),
    )
    .option(
      '--namespace <namespace>',
      'limit it to a namespace and its children; repeatable',
      collected,
      [],
    )
    .option('--drone <drone>', 'the drone that a token of role drone is for')
    .option('--expires <instant>', 'when it ends (ISO-8601); never unless given')
    .action(async (name: string, { role, namespace, drone, expires }: TokensCreateOptions) => {
      const answer = await cli.client().tokens.create.mutate({
        name,
        role,
        ...(namespace.length === 0 ? {} : { namespaces: namespace }),
        droneId: drone,
        expiresAt: expires,
      });
      cli.show(
        answer,
        () =>
          `${answer.secret}\n\nThis is the only time that the secret is shown. ` +
          `\`leasehold tokens revoke ${answer.tokenId}\` ends it.`,
      );
    });
}
