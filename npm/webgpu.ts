import { MillraceError } from './errors.ts';

/** Why this page has no WebGPU and what to do about it; null where it has. */
export function missingWebGpu(): MillraceError | null {
  if (typeof Worker === 'undefined' || typeof navigator === 'undefined') {
    return new MillraceError(
      'NO_WEBGPU',
      'Millrace runs in browsers: it needs WebGPU and Workers, which this JavaScript runtime does not have',
    );
  }
  if ('gpu' in navigator && navigator.gpu) return null;
  if (!globalThis.isSecureContext) {
    return new MillraceError(
      'NO_WEBGPU',
      `browsers offer WebGPU only to secure pages: serve this one over https, or from localhost, instead of ${location.origin}`,
    );
  }
  return new MillraceError('NO_WEBGPU', `this browser has no WebGPU: ${advice(navigator.userAgent)}`);
}

function advice(agent: string): string {
  if (/Firefox\//.test(agent))
    return 'use Firefox 141 or newer on Windows, 145 or newer on macOS, or set dom.webgpu.enabled in about:config';
  if (/Edg\/|Chrome\//.test(agent)) {
    return /Linux/.test(agent) && !/Android/.test(agent)
      ? 'update Chrome or Edge, and see at chrome://gpu whether WebGPU is disabled; on Linux chrome://flags/#enable-unsafe-webgpu may be needed'
      : 'update Chrome or Edge (113 or newer, 121 on Android) and turn on hardware acceleration in its settings';
  }
  if (/Safari\//.test(agent)) return 'update to Safari 26 (macOS, iOS or iPadOS 26)';
  return 'use a current Chrome, Edge, Safari or Firefox';
}
