/** The origins that the console is called by. */
export interface Origins {
  /** The origin that people are given, and that an identity provider sends them back to. */
  readonly main: string;
  readonly all: readonly string[];
  readonly isSecure: boolean;
  /** Whether a request with this `Origin` header, or none, may come from the console. */
  mayCome(origin: string | undefined): boolean;
}

const LOOPBACK = ['localhost', '127.0.0.1'];

/** On the local machine both of its names are good, at the same port. */
export function createOrigins(consoleOrigin: string): Origins {
  const { hostname, protocol, port } = new URL(consoleOrigin);
  const suffix = port === '' ? '' : `:${port}`;
  const all = LOOPBACK.includes(hostname)
    ? [
        consoleOrigin,
        ...LOOPBACK.filter((name) => name !== hostname).map(
          (name) => `${protocol}//${name}${suffix}`,
        ),
      ]
    : [consoleOrigin];
  return {
    main: consoleOrigin,
    all,
    isSecure: protocol === 'https:',
    mayCome: (origin) => origin === undefined || all.includes(origin.toLowerCase()),
  };
}
