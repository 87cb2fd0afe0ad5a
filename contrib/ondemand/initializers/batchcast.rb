# Open OnDemand's dashboard asks batchcast for whoever is signed in: when own jobs start, when each choice of a form would. Goes to
# /etc/ood/config/apps/dashboard/initializers/batchcast.rb
#
# The dashboard runs as its user (a Passenger process for each), so the service's unix socket knows who asks: no token,
# no proxy, and a private site shows each user own jobs alone. One short question a page; whatever goes wrong is a
# sentence in the widget, never an error of the dashboard.
require "date"
require "json"
require "socket"
require "timeout"
require "uri"

module BatchcastJobs
  SOCKET = ENV.fetch("BATCHCAST_SOCKET", "/run/batchcast/api.sock")
  WAIT_S, FORM_S = 2, 0.2
  SHOWN = 10

  Answer = Struct.new(:jobs, :more, :notes, :trouble)

  def self.waiting
    status, document = get("/v1/start")
    return shown(document["results"], document["warnings"]) if status == 200

    Answer.new([], 0, [], document["error"].to_s)
  rescue SystemCallError, IOError, Timeout::Error, JSON::ParserError, NoMethodError
    Answer.new([], 0, [], "The forecasts of this cluster do not answer at the moment.")
  end

  # The first jobs, each with how many they are: tasks of an array that wait for the same reason are one.
  def self.shown(rows, notes)
    groups = rows.group_by { |row| [row["job_id"][/\A\d+/], row["reason_in_words"]] }.values
    Answer.new(groups.first(SHOWN).map { |tasks| [soonest(tasks), tasks.size] }, [groups.size - SHOWN, 0].max, notes, nil)
  end

  def self.soonest(tasks)
    tasks.min_by { |row| row["likely_start_s"] || Float::INFINITY }
  end

  # When a waiting job starts, or the first task of its array.
  def self.start(job, tasks)
    words = in_words(job["likely_start_s"], job["by_90_start_s"])&.sub("starts at once", "any moment") || "start not known"
    tasks > 1 ? "the first: #{words}" : words
  end

  # The options of a form's select: what is shown, with the start for whoever is signed in, and sbatch's words. `choices`
  # has sbatch's long options by what is shown. Without an answer within 200 ms nothing is said of the start.
  def self.options(choices)
    said = starts(choices.values)
    choices.each_with_index.map do |(shown, asked), place|
      [said[place] ? "#{shown}: #{said[place]}" : shown, asked.map { |name, value| "--#{name}=#{value}" }.join(" ")]
    end
  end

  def self.starts(asked)
    target = "/v1/choices?" + URI.encode_www_form(asked.map { |options| ["choice", URI.encode_www_form(options)] })
    status, document = get(target, FORM_S)
    return [] unless status == 200

    document["results"].map { |row| in_words(row["likely_start_s"], row["by_90_start_s"]) }
  rescue StandardError
    []
  end

  def self.in_words(likely, by_90, now = Time.now)
    return if likely.nil? || by_90.nil?
    return "starts at once" if by_90 <= now.to_i + 60

    "likely #{likely <= now.to_i + 60 ? "at once" : clock(likely, now)}, 9 in 10 by #{clock(by_90, now)}"
  end

  def self.get(target, seconds = WAIT_S)
    Timeout.timeout(seconds) do
      UNIXSocket.open(SOCKET) do |socket|
        socket.write("GET #{target} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
        head, body = socket.read.force_encoding("UTF-8").split("\r\n\r\n", 2)
        [head[%r{\AHTTP/1\.\d (\d{3})}, 1].to_i, JSON.parse(body)]
      end
    end
  end

  # A start as people read it: the time today, the day besides when it is another one.
  def self.clock(epoch, now = Time.now)
    at = Time.at(epoch)
    at.strftime(at.to_date == now.to_date ? "%H:%M" : "%a %d %b %H:%M")
  end
end
