// A route handler of Next.js: save it as app/orders/[id]/pay/route.js. Two requests for one order are
// processed one after the other, in all instances; a request answers 503 after two seconds of waiting.
//
//   curl -X POST localhost:3000/orders/7/pay

import { setTimeout as sleep } from "node:timers/promises";
import { createBackend, LockError, lock } from "syncguard";

// The native addon needs Node.js. It does not run in the Edge runtime.
export const runtime = "nodejs";

// `next dev` loads this module again after each change. The backend survives that.
const backend = (globalThis.locks ??= createBackend());

/** Stands in for the real work. `?ms=` sets how long it takes. */
const pay = (ms, signal) => sleep(ms, undefined, { signal });

export async function POST(request, { params }) {
  const { id } = await params; // a promise since Next.js 15
  const ms = Number(new URL(request.url).searchParams.get("ms") ?? 1_000);
  try {
    const fence = await lock(
      backend,
      async ({ fence, signal }) => {
        await pay(ms, signal);
        return fence;
      },
      {
        key: `order:${id}`,
        signal: request.signal, // aborts when the client disconnects
        acquisition: { timeoutMs: 2_000 },
        throwIfLost: true,
      },
    );
    return Response.json({ paid: true, fence });
  } catch (error) {
    const isBusy = error instanceof LockError && error.code === "AcquisitionTimeout";
    if (!isBusy) throw error; // Next.js logs it and answers 500
    const headers = { "retry-after": "1" };
    return Response.json({ error: "Busy, try again." }, { status: 503, headers });
  }
}
