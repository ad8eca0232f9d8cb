/** Detection of the engine, for tests of what engines do in different ways. */

/** Node itself, neither workerd nor a browser. */
export const isInNode = navigator.userAgent.startsWith('Node.js/');

/** WebKit without Chromium, which also says that it is WebKit. */
export const isWebKit = /AppleWebKit/.test(navigator.userAgent) && !/Chrome/.test(navigator.userAgent);
