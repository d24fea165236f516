// The routes, and the modules of the application.

import {
  Controller,
  type ExceptionFilter,
  Catch,
  type ArgumentsHost,
  Get,
  HttpCode,
  Module,
  Param,
  Post,
  Query,
  UseFilters,
} from "@nestjs/common";
import { ScheduleModule } from "@nestjs/schedule";
import { HealthCheck, HealthCheckService, TerminusModule } from "@nestjs/terminus";
import { Lock, SyncGuardHealthIndicator, SyncGuardModule } from "syncguard/nestjs";
import { Jobs } from "./jobs";
import { Basket, CardRefused, OrdersService } from "./orders";

@Catch(CardRefused)
class CardRefusedFilter implements ExceptionFilter {
  catch(error: CardRefused, host: ArgumentsHost) {
    host.switchToHttp().getResponse().status(402).json({ refused: error.card });
  }
}

@Controller()
export class AppController {
  constructor(
    private readonly orders: OrdersService,
    private readonly basket: Basket,
    private readonly jobs: Jobs,
    private readonly health: HealthCheckService,
    private readonly locks: SyncGuardHealthIndicator,
  ) {}

  @Post("orders/:id/pay")
  pay(@Param("id") id: string, @Query("ms") ms = "0") {
    return this.orders.pay(id, Number(ms));
  }

  @Post("orders/:id/pay-once")
  payOnce(@Param("id") id: string, @Query("ms") ms = "0") {
    return this.orders.payOnce(id, Number(ms));
  }

  @Post("cards/:card/charge")
  @UseFilters(CardRefusedFilter)
  charge(@Param("card") card: string) {
    return this.orders.charge(card);
  }

  @Post("basket/:item")
  add(@Param("item") item: string) {
    return this.basket.add(item);
  }

  // The route's own metadata is below and above the lock.
  @HttpCode(202)
  @Lock({ key: (item: string) => `route:${item}` })
  @Post("route/:item/:ms")
  async route(@Param("item") item: string, @Param("ms") ms: string) {
    return { item, ms };
  }

  @Post("keep/:key")
  keep(@Param("key") key: string) {
    return this.orders.keep(key);
  }

  @Get("jobs")
  counts() {
    return {
      ...this.jobs.counts,
      method: [this.jobs.often.name, this.route.name, this.route.length],
    };
  }

  @Get("health")
  @HealthCheck()
  check() {
    return this.health.check([() => this.locks.pingCheck("locks")]);
  }
}

@Module({ providers: [{ provide: "URL", useFactory: () => process.env.STORE }], exports: ["URL"] })
class ConfigModule {}

@Module({
  imports: [
    SyncGuardModule.forRootAsync({
      imports: [ConfigModule],
      inject: ["URL"],
      useFactory: (url: string) => ({
        url,
        options: { keyPrefix: process.env.PREFIX, connectTimeoutMs: 1_000 },
        closeTimeoutMs: 500,
      }),
    }),
    ScheduleModule.forRoot(),
    TerminusModule,
  ],
  controllers: [AppController],
  providers: [OrdersService, Basket, Jobs],
})
export class AppModule {}
