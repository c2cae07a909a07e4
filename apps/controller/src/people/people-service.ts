import type { PeopleService } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { Store } from '@leasehold/keys-core/store';

export function createPeopleService(_store: Store): PeopleService {
  const notYet = (): never => {
    throw new LeaseError('person.not_found');
  };
  return {
    list: notYet,
    invite: notYet,
    setRole: notYet,
    disable: notYet,
    enable: notYet,
    signOutEverywhere: notYet,
  };
}
