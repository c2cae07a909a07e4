import { PrismaPg } from '@prisma/adapter-pg';
import { DriverAdapterError } from '@prisma/driver-adapter-utils';
import type pg from 'pg';

/** What the schema engine is given to work with. */
type Adapter = Awaited<ReturnType<PrismaPg['connect']>>;

/**
 * The PostgreSQL adapter, carrying out a script as a whole. The original cuts it at every `;`, also
 * at one in a comment or a text, and sends the pieces over several connections. Sent whole over one
 * connection, a script is one transaction: it is applied entirely or not at all.
 */
export class WholeScriptAdapter extends PrismaPg {
  readonly #opened: Adapter[] = [];

  override async connect(): Promise<Adapter> {
    return this.#remember(await super.connect());
  }

  override async connectToShadowDb(): Promise<Adapter> {
    return this.#remember(await super.connectToShadowDb());
  }

  /** Closes every connection that was opened; the engine itself closes none. */
  async close(): Promise<void> {
    // The newest first: a shadow database is dropped over the connection that made it.
    for (const adapter of this.#opened.splice(0).reverse()) await adapter.dispose();
  }

  #remember(adapter: Adapter): Adapter {
    this.#opened.push(adapter);
    return withWholeScripts(adapter);
  }
}

function withWholeScripts(adapter: Adapter): Adapter {
  const executeRaw = adapter.executeRaw.bind(adapter);
  // The engine's lock belongs to a session, which a pooler may give to somebody else. Whoever uses
  // this adapter has the turn already.
  adapter.executeRaw = (query) =>
    query.sql.includes('pg_advisory_lock') ? Promise.resolve(0) : executeRaw(query);
  adapter.executeScript = async (script) => {
    try {
      await adapter.underlyingDriver().query(script);
    } catch (error) {
      throw isDatabaseError(error) ? new DriverAdapterError(described(error)) : error;
    }
  };
  return adapter;
}

function isDatabaseError(error: unknown): error is pg.DatabaseError & { code: string } {
  return error instanceof Error && 'code' in error && 'severity' in error;
}

function described(error: pg.DatabaseError & { code: string }) {
  const { code, severity, message, detail, column, hint } = error;
  return {
    kind: 'postgres' as const,
    originalCode: code,
    originalMessage: message,
    code,
    severity: severity ?? 'ERROR',
    message: `${message} (SQLSTATE ${code})`,
    detail,
    column,
    hint,
  };
}
