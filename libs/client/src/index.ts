/** What services and Leasehold's own programs speak to a controller with. */
export { isUnreachable, leaseholdErrorOf, type LeaseholdError } from './client-errors.ts';
export {
  createControllerClient,
  type ControllerApi,
  type ControllerClient,
  type ControllerClientOptions,
} from './controller-client.ts';
