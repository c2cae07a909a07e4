/**
 * What a gateway and its controller tell each other. A gateway passes requests of browsers to backends. It has no
 * database: it asks for a route once, and keeps it valid by calls for all of its routes, twice a second.
 *
 * Instants of the database are milliseconds since 1970. Durations count from when the gateway sent its question, by
 * its own monotonic clock: no two machines' clocks are compared.
 */

/** Who may reach a key, for how long, and what the backend is told about them. The payload of a gateway token. */
export interface GatewayTokenClaims {
  /** The user, as the service that asked for the token names them. */
  readonly sub: string;
  /** The namespace and the name of the key. */
  readonly ns: string;
  readonly key: string;
  readonly tag: string;
  /** What the service says about the user. Passed to the backend as it is. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
  /** The only grant that it is for, by its lease id; left out for whatever backend the key has. */
  readonly grant?: string | undefined;
  /** What a request may start when the key has no backend, by the id of its record; left out for nothing. */
  readonly start?: string | undefined;
  /** By the database's clock, in seconds with a fraction, as JSON Web Tokens have them. */
  readonly iat: number;
  readonly exp: number;
  readonly jti: string;
}

/** A public key that tokens are verified with. */
export interface GatewayKey {
  readonly kid: string;
  /** Ed25519, base64url, as the member `x` of a JSON Web Key. */
  readonly x: string;
}

/**
 * Refuses every token that was issued up to `at` and has all that is given here. `namespace` includes its
 * children; null is any.
 */
export interface GatewayRevocation {
  readonly id: string;
  readonly namespace: string;
  readonly name: string | null;
  readonly user: string | null;
  readonly leaseId: string | null;
  /** By the database's clock. */
  readonly at: number;
}

/** Where the requests for a key go. */
export interface GatewayRoute {
  readonly key: { readonly name: string; readonly namespace: string; readonly tag: string };
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly program: string;
  /** `host:port`, as its drone reports it. */
  readonly address: string;
  /**
   * For how long no other grant of the key can exist and the backend is not stopped for idleness, counted from when
   * the question was sent. Includes the margin of clock rates.
   */
  readonly validForMs: number;
}

/** What a gateway says of a route, twice a second, while somebody uses it. */
export interface GatewayUse {
  readonly leaseId: string;
  /** Requests in progress and open WebSockets. */
  readonly connections: number;
  /** Users among them. */
  readonly users: number;
  /** Requests since the last call. */
  readonly requests: number;
  /** How long ago it was last used, when the call was sent; 0 while a connection is open. */
  readonly usedAgoMs: number;
}

/** What the route has come to. */
export type GatewayRouteState =
  | { readonly leaseId: string; readonly state: 'valid'; readonly validForMs: number }
  /** The grant has ended, or nobody may be sent to its backend any more. */
  | { readonly leaseId: string; readonly state: 'ended' };

export interface GatewaySynced {
  /** Of each use that was sent, in its order. */
  readonly routes: readonly GatewayRouteState[];
  /** All keys that tokens may be signed with. */
  readonly keys: readonly GatewayKey[];
  /** All revocations that a token in force may fall under; null when none has been added since `revision`. */
  readonly revocations: readonly GatewayRevocation[] | null;
  /** Changes whenever a revocation is added. */
  readonly revision: string;
  /** The database's clock when it was read. */
  readonly asOf: number;
}
