import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

/** A service over HTTP, in Java. The driver's scene loads it and injects the ailment. */
class Service {
    static volatile long sink;

    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> {
            long sum = 1;
            for (long step = 0; step < 1_000_000; step++) {
                sum = sum * step + 1;
            }
            sink = sum;
            exchange.sendResponseHeaders(200, 4);
            try (var body = exchange.getResponseBody()) {
                body.write("well".getBytes());
            }
        });
        server.start();
        System.out.println(server.getAddress().getPort());
    }
}
