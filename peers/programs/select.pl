use strict;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my @late;
for (1 .. 200) {
    my $began = clock_gettime(CLOCK_MONOTONIC);
    select(undef, undef, undef, 0.001);
    push @late, clock_gettime(CLOCK_MONOTONIC) - $began - 0.001;
}
open(my $figures, ">", $ENV{FIGURES}) or die;
print $figures (sort { $a <=> $b } @late)[100] * 1e6, "\n";
print "200 waits\n";
exit 5;
