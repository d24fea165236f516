// Credentials that depend on the environment. There is no Firestore server, so an attempt that fails to
// connect to it has got a token.

import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { createFirestoreBackend } from "../../js/firestore.js";

const folder = mkdtempSync(join(tmpdir(), "syncguard-"));
const opened = [];
let asked = [];

// Acts as the metadata server and as the server that exchanges tokens.
const server = createServer(async (request, response) => {
  const { method, url, headers } = request;
  asked.push({ method, url, headers, body: new URLSearchParams(await text(request)) });
  response.setHeader("metadata-flavor", "Google");
  const token = { access_token: "minted", token_type: "Bearer", expires_in: 3600 };
  const issued_token_type = "urn:ietf:params:oauth:token-type:access_token";
  response.end(
    url.endsWith("/project-id") ? "found" : JSON.stringify({ ...token, issued_token_type }),
  );
});
await once(server.listen(0, "127.0.0.1"), "listening");
const address = `127.0.0.1:${server.address().port}`;

beforeEach(() => {
  asked = [];
  vi.stubEnv("FIRESTORE_EMULATOR_HOST", "");
  vi.stubEnv("GOOGLE_CLOUD_PROJECT", "");
  vi.stubEnv("GCLOUD_PROJECT", "");
});
afterEach(() => vi.unstubAllEnvs());
afterAll(async () => {
  await Promise.all(opened.map((backend) => backend.close()));
  server.close();
  rmSync(folder, { recursive: true });
});

async function failure(target) {
  const nowhere = { host: "127.0.0.1", port: 1 };
  const backend = createFirestoreBackend({ ...nowhere, ...target }, { connectTimeoutMs: 2_000 });
  opened.push(backend);
  return backend.isLocked({ key: "k" }).catch((error) => error);
}

/** Hides the system's root certificates, which slim container images lack. On Linux they are files. */
function withoutRoots() {
  const none = join(folder, "none.pem");
  writeFileSync(none, "");
  vi.stubEnv("SSL_CERT_FILE", none);
  vi.stubEnv("SSL_CERT_DIR", mkdtempSync(join(folder, "none-")));
}

const hasToken = (error) => {
  expect(error.message).toContain("Firestore (127.0.0.1:1, project");
  expect(error.message).toContain("connection refused");
  expect(error.code).toBe("ServiceUnavailable");
};

const federated = (credential_source) => ({
  projectId: "p",
  credentials: {
    type: "external_account",
    audience: "//iam.googleapis.com/the/pool",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: `http://${address}/exchange`,
    credential_source,
  },
});

test("the metadata server is asked directly, with or without root certificates", async () => {
  vi.stubEnv("HOME", folder);
  vi.stubEnv("APPDATA", folder);
  vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", undefined);
  vi.stubEnv("GCE_METADATA_HOST", address);
  for (const name of ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"]) {
    vi.stubEnv(name, "http://127.0.0.1:1");
  }
  withoutRoots();
  const error = await failure({});
  hasToken(error);
  expect(error.message).toContain("project found");
  const paths = asked.map(({ url }) => url.replace(/\?.*/, ""));
  expect(paths).toEqual([
    "/computeMetadata/v1/project/project-id",
    "/computeMetadata/v1/instance/service-accounts/default/token",
  ]);
  for (const { headers } of asked) expect(headers["metadata-flavor"]).toBe("Google");
});

test.skipIf(process.platform !== "linux")(
  "without root certificates, a token server is an error that says what to install",
  async () => {
    withoutRoots();
    const error = await failure(federated({ file: join(folder, "subject") }));
    expect(error.code).toBe("AuthFailed");
    expect(error.message).toContain("SSL_CERT_FILE");
    expect(asked).toEqual([]);
  },
);

test("AWS Lambda has keys in the environment and no metadata server", async () => {
  vi.stubEnv("AWS_REGION", "eu-north-1");
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  vi.stubEnv("AWS_SESSION_TOKEN", "session");
  const nobody = "http://127.0.0.1:1";
  const error = await failure(
    federated({
      environment_id: "aws1",
      region_url: `${nobody}/zone`,
      url: `${nobody}/credentials`,
      regional_cred_verification_url:
        "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15",
      imdsv2_session_token_url: `${nobody}/token`,
    }),
  );
  hasToken(error);
  const { url, headers } = JSON.parse(decodeURIComponent(asked[0].body.get("subject_token")));
  expect(url).toContain("sts.eu-north-1.amazonaws.com");
  const signed = Object.fromEntries(headers.map(({ key, value }) => [key.toLowerCase(), value]));
  expect(signed["authorization"]).toContain("Credential=AKIDEXAMPLE/");
  expect(signed["x-amz-security-token"]).toBe("session");
});

test.skipIf(process.platform === "win32")(
  "an executable gets its variables, and runs only if it is allowed",
  async () => {
    const script = join(folder, "subject.sh");
    writeFileSync(
      script,
      `echo "{\\"version\\": 1, \\"success\\": true, \\"token_type\\": \\"$GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE\\",` +
        ` \\"id_token\\": \\"$1 $GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE $GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE\\"}"`,
    );
    const target = federated({ executable: { command: `sh ${script} first` } });
    const forbidden = await failure(target);
    expect(forbidden.code).toBe("AuthFailed");
    expect(forbidden.message).toContain("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES is 1");
    vi.stubEnv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1");
    hasToken(await failure(target));
    expect(asked[0].body.get("subject_token")).toBe("first //iam.googleapis.com/the/pool 0");
  },
);
