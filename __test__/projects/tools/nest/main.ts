import "reflect-metadata";
import { Injectable, Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { LockError, lock } from "syncguard";
import { createMemoryBackend } from "syncguard/memory";

@Injectable()
class Jobs {
  private readonly backend = createMemoryBackend();

  async run() {
    const fence = await lock(this.backend, (context) => context.fence, { key: "k" });
    const refused = await this.backend.acquire({ key: "", ttlMs: 1 }).catch((error) => error);
    console.log("locked", fence, refused instanceof LockError);
  }
}

@Module({ providers: [Jobs] })
class AppModule {}

async function main() {
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  await app.get(Jobs).run();
  await app.close();
}

void main();
