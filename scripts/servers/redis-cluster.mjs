import { freePort } from "./ports.mjs";
import { startRedis } from "./redis.mjs";
import { eventually, temporaryDirectory } from "./server.mjs";
import { makeCertificates } from "./tls.mjs";

/** Starts a Redis Cluster: three masters, each with `replicas` (0) replicas; `tls` for TLS only. */
export async function startRedisCluster({ masters = 3, replicas = 0, tls, acl, config } = {}) {
  const directory = temporaryDirectory();
  const certificates = tls ? await makeCertificates(directory.path) : undefined;
  const startNode = async () =>
    startRedis({
      tls,
      certificates,
      acl,
      config: {
        "cluster-enabled": "yes",
        "cluster-config-file": "nodes.conf",
        "cluster-node-timeout": 1000,
        // The default bus port, port + 10000, may be in use.
        "cluster-port": await freePort(),
        // Let a replica take over even if it missed some writes, because there are no others.
        "cluster-replica-validity-factor": 0,
        "repl-diskless-sync-delay": 0,
        ...(tls && {
          "tls-cluster": "yes",
          // The nodes are clients of each other.
          "tls-client-cert-file": certificates.files.clientCert,
          "tls-client-key-file": certificates.files.clientKey,
        }),
        ...(acl && { masteruser: acl.username, masterauth: JSON.stringify(acl.password) }),
        ...config,
      },
    });
  const nodes = await Promise.all(Array.from({ length: masters * (1 + replicas) }, startNode));
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    directory.remove();
  };
  try {
    await nodes[0].cli(
      ...["--cluster", "create", ...nodes.map(({ port }) => `127.0.0.1:${port}`)],
      ...["--cluster-replicas", String(replicas), "--cluster-yes"],
    );
    await eventually("the Redis Cluster is complete", () => complete(nodes));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    nodes,
    url: nodes[0].url,
    urls: nodes.map(({ url }) => url),
    tls: certificates,
    stop,
    kill: () => Promise.all(nodes.map((node) => node.kill())),
    async restart() {
      await Promise.all(nodes.map((node) => node.restart()));
      await eventually("the Redis Cluster is complete again", () => complete(nodes));
    },
    /** Adds a master without slots. */
    async join() {
      const node = await startNode();
      const [any] = nodes;
      nodes.push(node);
      const address = ({ port }) => `127.0.0.1:${port}`;
      await any.cli("--cluster", "add-node", address(node), address(any));
      await eventually("the new node is known", () => complete(nodes));
      return node;
    },
    /** Removes a node without slots. */
    async leave(node) {
      nodes.splice(nodes.indexOf(node), 1);
      const id = await node.cli("cluster", "myid");
      await Promise.all(nodes.map((other) => other.cli("cluster", "forget", id)));
      await node.stop();
    },
    suspend: () => nodes.forEach((node) => node.suspend()),
    resume: () => nodes.forEach((node) => node.resume()),
  };
}

/** Whether every node sees all nodes and all slots. */
async function complete(nodes) {
  const answers = await Promise.all(nodes.map((node) => node.cli("cluster", "info")));
  return answers.every(
    (text) =>
      /cluster_state:ok/.test(text) &&
      Number(/cluster_known_nodes:(\d+)/.exec(text)[1]) === nodes.length,
  );
}
