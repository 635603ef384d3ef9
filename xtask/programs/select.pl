use strict;
select(undef, undef, undef, 0.001) for 1 .. 400;
print "400 waits\n";
exit 5;
