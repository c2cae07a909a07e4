import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withScope } from '../../arguments/lease-lookup.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { eventTable } from '../../output/lease-text.ts';
import { parseScope } from '../../arguments/scope.ts';

/** `leasehold env history`. */
export function addEnvHistory(cli: Cli, parent: Command): void {
  withPage(
    withScope(cli.leaf(parent, 'history <environment>', 'Show what happened to an environment')),
  ).action(
    async (text: string, options: PageOptions & { namespace?: string; datacenter?: string }) => {
      const { namespace, datacenter, limit, cursor } = options;
      const scope = parseScope(text, namespace);
      const page = await cli
        .client()
        .environments.history.query({ ...scope, datacenter, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'Nothing has happened to this environment, as far back as events are kept.'
          : `${eventTable(page.items)}${moreText(page.nextCursor)}`,
      );
    },
  );
}
