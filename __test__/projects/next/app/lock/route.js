import { LockError, lock } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

const backend = createMemoryBackend();

export async function GET() {
  const fence = await lock(backend, (context) => context.fence, { key: "k" });
  const refused = await backend.acquire({ key: "", ttlMs: 1 }).catch((error) => error);
  return new Response(`locked ${fence} ${refused instanceof LockError}`);
}
