import type { Actor, Role } from '../kernel/access.ts';
import type { Count, Page, Searched, SearchedPage } from '../kernel/face-types.ts';
import type { FairUseLimit, FairUseOverrides } from '../kernel/fair-use.ts';
import type { TokenView } from './sql/api-tokens.ts';

/** The properties of a new token. */
export interface TokenRequest {
  readonly name: string;
  readonly role: Role;
  readonly namespaces?: readonly string[] | undefined;
  readonly droneId?: string | undefined;
  readonly expiresAt?: string | undefined;
  readonly programs?: readonly string[] | undefined;
  readonly capacity?: number | undefined;
  readonly addresses?: readonly string[] | undefined;
  readonly limits?: FairUseOverrides | undefined;
}

/** One limit of fair use of a principal, with how much of it is used now. */
export interface LimitUse {
  readonly limit: FairUseLimit;
  readonly max: number;
  /** Whether the limit is the token's own instead of its role's. */
  readonly isOwn: boolean;
  /** At the controller that answers; held leases at all controllers. Null where it is not counted. */
  readonly used: number | null;
}

/** API tokens. */
export interface TokenService {
  /** The secret is in this answer and nowhere else. */
  create(request: TokenRequest, actor: Actor): Promise<TokenView & { secret: string }>;
  /** Newest first; searched by a part of a name or of a drone's id. */
  list(input: SearchedPage): Promise<Page<TokenView>>;
  /** How many tokens all pages of the list have. */
  count(input: Searched): Promise<Count>;
  /** @throws {LeaseError} `token.not_found`. */
  get(
    tokenId: string,
  ): Promise<{ readonly token: TokenView; readonly fairUse: readonly LimitUse[] }>;
  /** Ends the token and its open connections. */
  revoke(
    input: { tokenId: string; reason?: string | undefined },
    actor: Actor,
  ): Promise<{ changed: boolean }>;
}

/** Reports how much principals use. */
export interface UseReport {
  report(who: {
    readonly principal: string;
    readonly role: Role;
    readonly overrides: FairUseOverrides | null;
  }): readonly LimitUse[];
}
