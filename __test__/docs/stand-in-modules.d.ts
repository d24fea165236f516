// Packages that the documents name and that are not installed here.

declare module "@nestjs/config" {
  export class ConfigService {
    getOrThrow<T>(name: string): T;
  }
}
