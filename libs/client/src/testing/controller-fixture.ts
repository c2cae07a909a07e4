import { openTestStage, type FaultProxy, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { createLeasehold, type Leasehold, type LeaseholdOptions } from '../index.ts';

/** A controller process for all tests of a file, and the clients that call it. */
export interface ClientFixture {
  readonly operator: Leasehold;
  readonly aClient: (options?: Partial<LeaseholdOptions>) => Leasehold;
  /** In front of the controller. */
  readonly aProxy: () => Promise<FaultProxy>;
}

export function useController(): ClientFixture {
  let stage: Stage;
  let operator: Leasehold;

  beforeAll(async () => {
    stage = await openTestStage();
    operator = createLeasehold({ url: stage.url, token: stage.credentials.operator });
    stage.onClose(() => operator.close());
  });

  afterAll(() => stage.close());

  return {
    get operator() {
      return operator;
    },
    aClient(options = {}) {
      const { url, credentials } = stage;
      const client = createLeasehold({ url, token: credentials.client, ...options });
      onTestFinished(() => client.close());
      return client;
    },
    aProxy: () => stage.front(),
  };
}
