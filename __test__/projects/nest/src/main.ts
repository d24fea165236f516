import { NestFactory } from "@nestjs/core";
import { AppModule } from "./app";

async function bootstrap() {
  const app = await NestFactory.create(AppModule, { logger: ["error"] });
  app.enableShutdownHooks();
  await app.listen(0);
  console.log(await app.getUrl());
}

void bootstrap();
