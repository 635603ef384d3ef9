use strict;
use IO::Socket::INET;

my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$ARGV[0]") or die "memcached: $!";
for my $i (1 .. 5000) {
    print $socket "set key$i 0 0 5\r\nvalue\r\n";
    <$socket> eq "STORED\r\n" or die "set";
    print $socket "get key$i\r\n";
    <$socket> for 1 .. 3;
}
print "10000 requests\n";
