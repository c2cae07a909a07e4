/** What apps and other slices may use. */
export {
  bindUnboundAccount,
  hashPassword,
  hasOidcAccount,
  newPassword,
  oidcAccountId,
  oidcPersonId,
  oidcSubjectOf,
  PASSWORD_LENGTH,
  readPasswordHash,
  removeAccountOfOtherIssuer,
  replacePassword,
  setPassword,
  verifyPassword,
} from './sql/accounts.ts';
export {
  createPeopleService,
  createSessionAuthority,
  type Invitation,
  PEOPLE_TOPIC,
  type PeopleService,
  type SessionAuthority,
} from './people-service.ts';
export {
  type AdminSignIn,
  bootstrapCredentials,
  type Credentials,
  type DroneBindings,
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  isAdminSignIn,
  makeAdmin,
  makeFirstToken,
  writeFirstCredentials,
} from './sql/bootstrap.ts';
export {
  insertToken,
  type NewToken,
  newTokenSecret,
  readTokensOf,
  type TokenBindings,
  tokensInForce,
  type TokenView,
} from './sql/api-tokens.ts';
export {
  type AuditEntry,
  type AuditFilter,
  type AuditListInput,
  type AuditView,
  countAudit,
  listAudit,
  nextAudit,
  openWebhook,
  readWebhook,
  recordWebhookStep,
  type WebhookState,
  writeAudit,
} from './sql/audit.ts';
export {
  type Accepted,
  acceptInvitation,
  addPerson,
  changeRole,
  findPersonId,
  isInvitationOpen,
  type PersonView,
  readForRefusal,
  recordSignIn,
} from './sql/people.ts';
export {
  endOtherSessions,
  endSession,
  endSessionsOf,
  personSessionsInForce,
  readSessionEpoch,
  removeOldPeopleRows,
  SESSION_DAYS_MAX,
  type SessionAccess,
  type Standing,
} from './sql/sessions.ts';
export {
  countSignInTry,
  forgetSignInFailures,
  sourceOfTries,
  takeBackSignInTry,
  type TriedAt,
} from './sql/sign-in-failures.ts';
export {
  createTokenAuthority,
  createTokenService,
  type LimitUse,
  type TokenAuthority,
  type TokenRequest,
  TOKENS_TOPIC,
  type TokenService,
} from './token-service.ts';
export { createHoldOffService, holdOffView } from './hold-off-service.ts';
