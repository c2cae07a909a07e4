const TOKEN = /\blh_[A-Za-z0-9_-]{16,}/g;
const URL_PASSWORD = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s/:@"']*):[^\s/@"']+@/gi;
const BEARER = /\b(bearer\s+)[^\s"']+/gi;

/** The text without API tokens, bearer credentials and the passwords of URLs. */
export function hideSecrets(text: string): string {
  return text.replace(URL_PASSWORD, '$1:***@').replace(BEARER, '$1***').replace(TOKEN, 'lh_***');
}
