queue = Queue.new
clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
late = []
producer = Thread.new do
  120.times do |i|
    began = clock.call
    sleep 0.002
    late << clock.call - began - 0.002
    queue << i
  end
end
puts 120.times.sum { queue.pop }
producer.join
File.write(ENV["FIGURES"], "#{late.sort[60] * 1e6}\n")
