import type { Environment } from '@leasehold/service-kit';
import type { CliConfig } from '../config/config.ts';
import { unreachable, usageFailure } from '../failures/failure.ts';
import { readCredentials, readRunFile } from '../home.ts';
import { LOCAL, readContexts, requireContext, type Context } from './context-store.ts';

/** Which controllers commands talk to, and where that is from. */
export interface Target {
  /** null: what runs in the home. */
  readonly urls: readonly string[] | null;
  readonly token: string | null;
  /** The context in use; null where variables, or the home, decide alone. */
  readonly context: string | null;
  /** Where each is from, for people: `LEASEHOLD_URL`, `context staging`. */
  readonly from: { readonly urls: string; readonly token: string };
}

/** Controllers of one database, of which any that answers is used, and a token for them. */
export interface Access {
  readonly urls: readonly string[];
  readonly token: string;
  readonly from: Target['from'];
}

/**
 * Where commands go: to the context that `--context` or LEASEHOLD_CONTEXT names; else to LEASEHOLD_URL;
 * else to the current context; else to what runs in the home. A context's token goes to its own
 * controllers alone.
 * @throws {CliFailure} `context.not_found` or `context.unusable`.
 */
export function findTarget(config: CliConfig, environment: Environment): Target {
  const context = chosenContext(config, environment);
  if (context === undefined) {
    const urls = config.context === null ? config.urls : null;
    return {
      ...{ urls, token: config.token, context: null },
      from: {
        urls: urls === null ? `leasehold up in ${config.home}` : 'LEASEHOLD_URL',
        token: config.token === null ? `leasehold up in ${config.home}` : 'LEASEHOLD_TOKEN',
      },
    };
  }
  const { name, urls } = context;
  // Who names a context means its token; the current one gives way to a variable.
  const own = config.context === null ? (config.token ?? context.token) : context.token;
  const isOwn = own !== null && own === context.token;
  return {
    ...{ urls, context: name, token: own ?? config.token },
    from: { urls: `context ${name}`, token: isOwn ? `context ${name}` : 'LEASEHOLD_TOKEN' },
  };
}

/** undefined: variables, or the home, decide. */
function chosenContext(config: CliConfig, environment: Environment): Context | undefined {
  if (config.context === LOCAL) return undefined;
  if (config.context === null && config.urls !== null) return undefined;
  const contexts = readContexts(environment);
  const name = config.context ?? contexts.current;
  return name === null ? undefined : requireContext(contexts, name);
}

/**
 * Where the controllers are and the token for them.
 * @throws {CliFailure} when neither is known.
 */
export function controllerAccess(config: CliConfig, target: Target): Access {
  const { from } = target;
  const isHome = target.urls === null;
  const running = isHome ? readRunFile(config.home)?.controllerUrl : undefined;
  const urls = target.urls ?? (running === undefined ? undefined : [running]);
  if (urls === undefined) {
    throw unreachable(
      `Nothing runs in ${config.home}, LEASEHOLD_URL is not set, and no context is in use.`,
      'Start everything here with `leasehold up`, set LEASEHOLD_URL and LEASEHOLD_TOKEN, or add a context: `leasehold context add --help`.',
    );
  }
  // A token is never sent to an address that it was not made for.
  const token = target.token ?? (isHome ? readCredentials(config.home)?.admin : undefined);
  if (token !== undefined) return { urls, token, from };
  if (target.context !== null) {
    throw usageFailure(
      `The context ${target.context} has no token, and LEASEHOLD_TOKEN is not set.`,
      `\`leasehold context add ${target.context} --replace --token-stdin --url ${urls.join(',')}\` keeps one.`,
    );
  }
  throw usageFailure(
    'LEASEHOLD_TOKEN is not set.',
    `The tokens of ${config.home} are for what runs there; \`leasehold tokens create\` makes others.`,
  );
}
