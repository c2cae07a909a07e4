import { randomUUID } from 'node:crypto';
import { hashPassword, setPassword } from '@leasehold/keys-core/access';
import { waitUntil } from '@leasehold/testing';
import type { TestController } from './test-controller.ts';

/** What a page of the console would see of an answer. */
export interface BrowserAnswer {
  readonly status: number;
  readonly setCookies: readonly string[];
  readonly location: string | null;
  readonly body: Record<string, unknown>;
}

/** A browser, as far as signing in goes: it keeps cookies, and sends the origin of its page. */
export interface TestBrowser {
  readonly cookies: Map<string, string>;
  /** Asks again while its address may not: tests that share a controller share how often an address may try. */
  request(
    path: string,
    init?: { body?: unknown; headers?: Record<string, string>; method?: string },
  ): Promise<BrowserAnswer>;
  /** Signs in and returns the answer. */
  signIn(email: string, password: string): Promise<BrowserAnswer>;
  /** The data of a query, or the code of its error. */
  query(procedure: string, input?: unknown): Promise<unknown>;
  /** Posts a mutation with the session's CSRF token; the data, or the code of its error. */
  mutate(procedure: string, input: unknown): Promise<unknown>;
  /** Opens the event stream, as the console does; the answer's body is left to the caller. */
  openStream(signal: AbortSignal): Promise<Response>;
}

export const ORIGIN = 'http://localhost:4601';
export const PASSWORD = 'correct horse battery';
/** What an address may try is counted by the second. */
const AGAIN_MS = 200;

function isTooSoon({ body }: BrowserAnswer): boolean {
  return body['code'] === 'request.rate_limited';
}

/** A new browser that has never been at this controller. */
export function createTestBrowser(on: { readonly url: string }): TestBrowser {
  const cookies = new Map<string, string>();
  const cookieHeader = (): Record<string, string> =>
    cookies.size === 0
      ? {}
      : { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };

  const ask: TestBrowser['request'] = async (path, init = {}) => {
    const response = await fetch(`${on.url}${path}`, {
      method: init.method ?? (init.body === undefined ? 'GET' : 'POST'),
      redirect: 'manual',
      headers: {
        origin: ORIGIN,
        ...cookieHeader(),
        ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...init.headers,
      },
      ...(init.body === undefined ? {} : { body: JSON.stringify(init.body) }),
    });
    const setCookies = response.headers.getSetCookie();
    for (const line of setCookies) keep(cookies, line);
    const text = await response.text();
    const body = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {};
    return {
      status: response.status,
      setCookies,
      location: response.headers.get('location'),
      body,
    };
  };
  const browser: TestBrowser = {
    cookies,
    async request(path, init = {}) {
      const answer = await ask(path, init);
      if (!isTooSoon(answer)) return answer;
      return waitUntil(
        async () => {
          const later = await ask(path, init);
          return !isTooSoon(later) && later;
        },
        { pollMs: AGAIN_MS },
      );
    },
    signIn: (email, password) =>
      browser.request('/api/auth/sign-in/email', { body: { email, password } }),
    async query(procedure, input) {
      const asked =
        input === undefined ? '' : `?input=${encodeURIComponent(JSON.stringify(input))}`;
      return outcomeOf(await browser.request(`/trpc/${procedure}${asked}`));
    },
    async mutate(procedure, input) {
      const session = (await browser.query('session.get')) as { csrfToken?: string };
      return outcomeOf(
        await browser.request(`/trpc/${procedure}`, {
          body: input,
          headers: { 'x-leasehold-csrf': session.csrfToken ?? '' },
        }),
      );
    },
    openStream: (signal) =>
      fetch(`${on.url}/trpc/events.watch?input=%7B%7D`, {
        signal,
        headers: { origin: ORIGIN, accept: 'text/event-stream', ...cookieHeader() },
      }),
  };
  return browser;
}

function keep(cookies: Map<string, string>, line: string): void {
  const [pair = ''] = line.split(';');
  const equals = pair.indexOf('=');
  const name = pair.slice(0, equals);
  if (/max-age=0/iu.test(line)) cookies.delete(name);
  else cookies.set(name, pair.slice(equals + 1));
}

/** The data of an answer of the API, or the code of its error. */
export function outcomeOf({ body }: BrowserAnswer): unknown {
  const { result, error } = body as {
    result?: { data: unknown };
    error?: { data: { leaseholdCode: string } };
  };
  return error === undefined ? result?.data : error.data.leaseholdCode;
}

let passwordHash: Promise<string> | undefined;

/** Makes somebody with {@link PASSWORD}, which is hashed once: that takes a core as long as a test. @returns their id. */
export async function aPerson(on: TestController, email: string, role = 'admin'): Promise<string> {
  const hash = await (passwordHash ??= hashPassword(PASSWORD));
  const personId = randomUUID();
  await on.controller.store.general.$transaction(async (tx) => {
    const person = { id: personId, email, name: email, role, joinedAt: new Date() };
    await tx.records.person.create({ data: person, select: { id: true } });
    await setPassword(tx, personId, hash);
  });
  return personId;
}

/** Somebody with {@link PASSWORD}, and a browser in which they have signed in. */
export async function signedInPerson(
  on: TestController,
  { email, role }: { readonly email: string; readonly role: string },
): Promise<TestBrowser & { readonly personId: string }> {
  const personId = await aPerson(on, email, role);
  const browser = createTestBrowser(on);
  await browser.signIn(email, PASSWORD);
  return { ...browser, personId };
}

/** An administrator who has signed in. */
export function signedInAdmin(
  on: TestController,
  email = 'ada@example.com',
): ReturnType<typeof signedInPerson> {
  return signedInPerson(on, { email, role: 'admin' });
}

/** For somebody of a test's own, at a controller of several tests. */
export const anEmail = (): string => `${randomUUID()}@example.com`;

/** Invites somebody as this administrator, accepts for them, and returns their browser. */
export async function joinedPerson(
  on: TestController,
  admin: TestBrowser,
  person: { readonly email: string; readonly role: string },
): Promise<TestBrowser & { readonly personId: string }> {
  const invitation = (await admin.mutate('people.invite', person)) as {
    path: string;
    person: { personId: string };
  };
  const browser = createTestBrowser(on);
  await browser.request('/api/auth/accept-invitation', {
    body: { invitation: invitation.path.split('=')[1], password: PASSWORD },
  });
  return { ...browser, personId: invitation.person.personId };
}
