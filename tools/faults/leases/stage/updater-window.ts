/** For how long the updater stands between its guard's last look and its write. */
export const WINDOW_MS = 250;
