/** What apps and other slices may use. */
export type { GatewayAddresses } from './gateway-addresses.ts';
export {
  createGatewayService,
  type GatewayAccess,
  type GatewayService,
  type RevokeTokensInput,
  type RouteInput,
  type SignedToken,
  type SignInput,
  type SyncInput,
} from './gateway-service.ts';
export { type GatewayView, removeOldGatewayRows } from './sql/gateway-records.ts';
