import type { Role } from '@leasehold/keys-core';

/** The caller itself, and what a browser needs for further requests. */
export interface SessionView {
  /** As the audit names the caller. */
  readonly actor: string;
  readonly role: Role;
  readonly namespaces: readonly string[] | null;
  /** Null for an API token. */
  readonly person: {
    readonly personId: string;
    readonly email: string;
    readonly name: string;
    /** How the person signs in: someone without a password cannot change it. */
    readonly signInMethods: readonly ('password' | 'oidc')[];
  } | null;
  /** To be sent as the header `x-leasehold-csrf` with every mutation of this session; null for a token. */
  readonly csrfToken: string | null;
  readonly expiresAt: string | null;
  readonly datacenter: string;
  /** The database's time. */
  readonly asOf: string;
}
