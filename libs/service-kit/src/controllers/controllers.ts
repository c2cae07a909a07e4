/** Several controllers of one database: their addresses, and which of them is asked. */
export {
  ControllerChoice,
  NoControllerAnswers,
  SIGN_OF_LIFE_MS_MAX,
  SILENCE_MS,
} from './controller-choice.ts';
export {
  ControllerSilent,
  createControllerFetch,
  wasNeverSent,
  type ControllerFetch,
} from './controller-fetch.ts';
export { controllerUrlsOf, controllerUrlsProblem } from './controller-urls.ts';
