/** How long the updater pauses between its guard's last check and its write. */
export const WINDOW_MS = 250;
