//! The doctor's section on network cards, and on libfabric, through which they are used.

use weft::doctor::{self, FoundByLibfabric, LibfabricSurvey, Link, Nature, NearDomains, Nic};
use weft::{Config, FabricName};

use super::{Check, State, trial};

/// What is here, and what of it a job would use.
pub fn section(config: &Config) -> Vec<Check> {
    let survey = doctor::survey_libfabric(config).map_err(|error| error.to_string());
    let asked = match (config.allows(FabricName::Libfabric), config.seeks_hardware) {
        (true, _) => NetworkRequest::Named(config.libfabric_provider.clone()),
        (false, true) => NetworkRequest::Sought,
        (false, false) => NetworkRequest::LeftOut,
    };
    let mut checks = checks(&survey, &asked, &doctor::rdma_cards());
    if let (NetworkRequest::Named(provider), Ok(LibfabricSurvey { chosen: Some(_), .. })) = (asked, survey) {
        let provider = provider.map(|provider| format!(":{provider}")).unwrap_or_default();
        checks.extend(trial("a job over libfabric", &format!("libfabric{provider}"), |_| None));
    }
    checks
}

/// What the variables ask for.
enum NetworkRequest {
    /// libfabric, and perhaps a provider.
    Named(Option<String>),
    /// Nothing: it is used between hosts that have cards for it.
    Sought,
    /// Other fabrics.
    LeftOut,
}

fn checks(survey: &Result<LibfabricSurvey, String>, asked: &NetworkRequest, cards: &[String]) -> Vec<Check> {
    let mut checks = vec![in_kernel(cards)];
    match survey {
        Ok(survey) => {
            checks.push(library(survey));
            checks.push(chosen(survey, asked, !cards.is_empty()));
            checks.extend(ways(survey));
        }
        Err(error) => checks.push(no_library(error, asked, !cards.is_empty())),
    }
    checks
}

/// What the kernel has drivers for.
fn in_kernel(cards: &[String]) -> Check {
    let name = "cards for RDMA";
    match cards {
        [] => Check::new(name, State::Absent, "the kernel knows none"),
        cards => Check::new(name, State::Good, cards.join(", ")),
    }
}

fn library(survey: &LibfabricSurvey) -> Check {
    let from = survey.path.as_ref().map(|path| format!(", {}", path.display()));
    let what = format!("libfabric {}{}", survey.version, from.unwrap_or_default());
    Check::new("library", State::Good, what)
}

fn no_library(error: &str, asked: &NetworkRequest, has_cards: bool) -> Check {
    let (what, remedy) = error.split_once('\n').unwrap_or((error, ""));
    match asked {
        NetworkRequest::Named(_) => Check::new("library", State::Broken, what).remedy(remedy.trim()),
        NetworkRequest::Sought if has_cards => {
            let what = format!("{what}; without libfabric the cards are not used");
            Check::new("library", State::Slow, what).remedy(remedy.trim())
        }
        _ => Check::new("library", State::Absent, what),
    }
}

/// What a job would use, and why.
fn chosen(survey: &LibfabricSurvey, asked: &NetworkRequest, has_cards: bool) -> Check {
    let good = |why: &str| {
        let way = survey.chosen.as_ref().map(|way| format!("{} on {}", way.provider, way.domain));
        let what = format!("{}: {why}{}", way.unwrap_or_default(), preference(survey));
        Check::new("chosen", State::Good, what)
    };
    let check = |state: State, what: &str| Check::new("chosen", state, what);
    match (asked, survey.chosen.is_some()) {
        (NetworkRequest::LeftOut, _) => check(State::Absent, "nothing: left out by WEFT_FABRIC"),
        (NetworkRequest::Named(Some(_)), true) => good("named in WEFT_FABRIC"),
        (NetworkRequest::Named(None), true) => good("the first provider for hardware"),
        (NetworkRequest::Named(provider), false) => {
            let what = match provider {
                Some(provider) => format!("no provider `{provider}` serves here"),
                None => "no provider for hardware serves here".to_owned(),
            };
            check(State::Broken, &what).remedy(remedy(survey, has_cards))
        }
        (NetworkRequest::Sought, true) if has_cards => {
            good("the first provider for hardware, for jobs on several hosts")
        }
        (NetworkRequest::Sought, true) => {
            let what =
                "nothing by itself, as the kernel knows no card; a provider for hardware serves all the same";
            check(State::Slow, what).remedy("WEFT_FABRIC=shm,libfabric")
        }
        (NetworkRequest::Sought, false) if has_cards => {
            let what = "nothing: no provider uses the cards that are here, and tcp is used between hosts";
            check(State::Slow, what).remedy(remedy(survey, true))
        }
        (NetworkRequest::Sought, false) => {
            check(State::Absent, "nothing: there is no hardware, and tcp is used between hosts")
        }
    }
}

/// Why that card of several, and which help it.
fn preference(survey: &LibfabricSurvey) -> String {
    let Some(chosen) = &survey.chosen else { return String::new() };
    let distance = |way: &FoundByLibfabric| {
        let place = survey.found.iter().position(|found| found == way)?;
        Some(survey.near.get(place)?.distance)
    };
    let is_down = |way: &FoundByLibfabric| way.nic.as_ref().is_some_and(|nic| nic.link == Link::Down);
    let is_alike = |way: &FoundByLibfabric| way.provider == chosen.provider && way.fabric == chosen.fabric;
    let is_rival =
        |way: &&FoundByLibfabric| way.fits && !is_down(way) && is_alike(way) && way.domain != chosen.domain;
    let rivals: Vec<&FoundByLibfabric> = survey.found.iter().filter(is_rival).collect();
    let is_as_near = |way: &&&FoundByLibfabric| distance(way) == distance(chosen);
    let mut text = match (rivals.len(), rivals.iter().filter(is_as_near).count()) {
        (0, _) => String::new(),
        (_, 0) => "; of its cards the nearest to the cpus that this process may run on".to_owned(),
        (_, others) => format!("; {others} more as near, which the processes of a host take in turn"),
    };
    if !survey.rails.is_empty() {
        let rails: Vec<&str> = survey.rails.iter().map(|rail| rail.domain.as_str()).collect();
        text += &format!("; large messages go over {}, too (WEFT_LIBFABRIC_RAILS)", rails.join(", "));
    }
    text
}

/// What to do where nothing serves.
fn remedy(survey: &LibfabricSurvey, has_cards: bool) -> String {
    if has_cards {
        return "install what the cards need (Debian: rdma-core and ibverbs-providers) and a libfabric with their \
                provider, mostly the vendor's, named by WEFT_LIBFABRIC; FI_LOG_LEVEL=info fi_info tells why one is left out"
            .to_owned();
    }
    let mut names: Vec<&str> =
        survey.found.iter().filter(|way| way.fits).map(|way| way.provider.as_str()).collect();
    names.dedup();
    match names.first() {
        Some(name) => {
            format!("WEFT_FABRIC=tcp does without; for a test of libfabric, WEFT_FABRIC='libfabric:{name}'")
        }
        None => "WEFT_FABRIC=tcp does without".to_owned(),
    }
}

/// A line for each card, and one for all providers that work without.
fn ways(survey: &LibfabricSurvey) -> Vec<Check> {
    let mut lines: Vec<NetworkLine<'_>> = Vec::new();
    for (number, way) in survey.found.iter().enumerate() {
        let usage = match (survey.chosen.as_ref() == Some(way), survey.rails.contains(way)) {
            (true, _) => Usage::Chosen,
            (false, true) => Usage::Helps,
            (false, false) => Usage::None,
        };
        let (item, line) = NetworkLine::of(way, survey.near.get(number), usage);
        let place = lines.iter().position(|other| other.is_like(&line)).unwrap_or(lines.len());
        if place == lines.len() {
            lines.push(line);
        }
        // An interface comes with each of its addresses.
        if !lines[place].items.contains(&item) {
            lines[place].items.push(item);
        }
    }
    lines.into_iter().map(NetworkLine::check).collect()
}

/// What is said of some ways alike.
struct NetworkLine<'a> {
    name: &'a str,
    items: Vec<&'a str>,
    card: String,
    state: State,
    verdict: &'static str,
}

/// What a job would use a way for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Usage {
    Chosen,
    Helps,
    None,
}

impl<'a> NetworkLine<'a> {
    /// The line that a way belongs on, and its word there.
    fn of(way: &'a FoundByLibfabric, near: Option<&NearDomains>, usage: Usage) -> (&'a str, NetworkLine<'a>) {
        let is_down = way.nic.as_ref().is_some_and(|nic| nic.link == Link::Down);
        let (provider, domain) = (way.provider.as_str(), way.domain.as_str());
        let (name, item, state, verdict) = match Nature::of(way) {
            _ if usage == Usage::Chosen => (provider, domain, State::Good, "would be used"),
            _ if usage == Usage::Helps => (provider, domain, State::Good, "would help with large messages"),
            Nature::Sockets => {
                ("over sockets", provider, State::Absent, "only where named: the tcp fabric has less between")
            }
            Nature::OneHost => {
                ("on one host", provider, State::Absent, "only where named: the shm fabric has less between")
            }
            Nature::Hardware if !way.fits => {
                (provider, domain, State::Absent, "lacks what is needed, or demands what is not given")
            }
            Nature::Hardware if is_down => (provider, domain, State::Slow, "its link is down"),
            Nature::Hardware => (provider, domain, State::Absent, "could be used; another comes first"),
        };
        let card = if name == provider { card(way.nic.as_ref(), near) } else { String::new() };
        (item, NetworkLine { name, items: Vec::new(), card, state, verdict })
    }

    fn is_like(&self, other: &NetworkLine<'_>) -> bool {
        (self.name, &self.card, self.verdict) == (other.name, &other.card, other.verdict)
    }

    fn check(self) -> Check {
        let what = format!("{}{}: {}", self.items.join(", "), self.card, self.verdict);
        Check::new(self.name, self.state, what)
    }
}

/// What is known of a card, in brackets.
fn card(nic: Option<&Nic>, near: Option<&NearDomains>) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(nic) = nic {
        let link = match nic.link {
            Link::Unknown => None,
            Link::Down => Some("down".to_owned()),
            Link::Up => Some("up".to_owned()),
        };
        let speed = nic.bits_per_second.map(|bits| format!("{} Gbit/s", bits as f64 / 1e9));
        let texts = [&nic.device, &nic.network].map(|text| (!text.is_empty()).then(|| text.clone()));
        let [device, network] = texts;
        let told = [device, nic.pci.map(|pci| pci.to_string()), network, speed, link];
        parts.extend(told.into_iter().flatten());
    }
    if let Some(NearDomains { local_cpus: Some(cpus), distance }) = near {
        parts.push(format!("nearest to cpus {cpus}, distance {distance}"));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use weft::doctor::{AddressFormat, PciAddress, Version};

    use super::*;

    fn way(provider: &str, domain: &str, link: Option<Link>) -> FoundByLibfabric {
        let nic = link.map(|link| Nic {
            device: String::new(),
            driver: String::new(),
            pci: Some(PciAddress { domain: 0, bus: 0x3b, device: 0, function: 0 }),
            bits_per_second: Some(200_000_000_000),
            link,
            network: "InfiniBand".to_owned(),
        });
        FoundByLibfabric {
            provider: provider.to_owned(),
            domain: domain.to_owned(),
            fabric: String::new(),
            address_format: AddressFormat(0),
            nic,
            fits: true,
        }
    }

    fn survey(found: Vec<FoundByLibfabric>, chosen: Option<usize>) -> Result<LibfabricSurvey, String> {
        let chosen = chosen.map(|place| found[place].clone());
        let path = Some("/usr/lib/libfabric.so.1".into());
        let near = vec![NearDomains { local_cpus: None, distance: 0 }; found.len()];
        let version = Version { major: 1, minor: 17 };
        Ok(LibfabricSurvey { version, path, found, near, chosen, rails: Vec::new() })
    }

    fn software() -> Vec<FoundByLibfabric> {
        let tcp = |domain| way("tcp;ofi_rxm", domain, None);
        vec![tcp("eth0"), tcp("lo"), way("net", "eth0", None), way("shm", "shm", None)]
    }

    fn find<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no {name} in {checks:?}"))
    }

    #[test]
    fn what_is_software_is_told_and_not_used() {
        let checks = checks(&survey(software(), None), &NetworkRequest::Sought, &[]);
        assert!(checks.iter().all(|check| matches!(check.state, State::Good | State::Absent)), "{checks:?}");
        assert!(checks.iter().all(|check| check.remedy.is_none()), "{checks:?}");
        let what = &find(&checks, "over sockets").what;
        assert_eq!(what, "tcp;ofi_rxm, net: only where named: the tcp fabric has less between");
        assert_eq!(find(&checks, "library").what, "libfabric 1.17, /usr/lib/libfabric.so.1");
        assert_eq!(checks.len(), 5);
    }

    #[test]
    fn hardware_is_told_card_by_card() {
        let mut found = software();
        found.insert(0, way("verbs;ofi_rxm", "mlx5_0", Some(Link::Up)));
        found.insert(1, way("verbs;ofi_rxm", "mlx5_1", Some(Link::Down)));
        let cards = ["mlx5_0".to_owned(), "mlx5_1".to_owned()];
        let survey = survey(found, Some(0));
        let told = checks(&survey, &NetworkRequest::Sought, &cards);
        assert_eq!(find(&told, "cards for RDMA").what, "mlx5_0, mlx5_1");
        let expected = "verbs;ofi_rxm on mlx5_0: the first provider for hardware, for jobs on several hosts";
        assert_eq!(
            (find(&told, "chosen").state, find(&told, "chosen").what.as_str()),
            (State::Good, expected)
        );
        let card = "(0000:3b:00.0, InfiniBand, 200 Gbit/s, up)";
        assert_eq!(find(&told, "verbs;ofi_rxm").what, format!("mlx5_0 {card}: would be used"));
        assert!(
            told.iter().any(|check| check.what.ends_with("200 Gbit/s, down): its link is down")),
            "{told:?}"
        );
        for (asked, cards, state, what) in [
            (
                NetworkRequest::Named(None),
                &cards[..],
                State::Good,
                "verbs;ofi_rxm on mlx5_0: the first provider",
            ),
            (
                NetworkRequest::Named(Some("verbs".to_owned())),
                &cards[..],
                State::Good,
                "mlx5_0: named in WEFT_FABRIC",
            ),
            (NetworkRequest::Sought, &[][..], State::Slow, "the kernel knows no card"),
            (NetworkRequest::LeftOut, &cards[..], State::Absent, "left out by WEFT_FABRIC"),
        ] {
            let told = checks(&survey, &asked, cards);
            let chosen = find(&told, "chosen");
            assert!(chosen.state == state && chosen.what.contains(what), "{chosen:?}");
            assert_eq!(chosen.remedy.is_some(), state == State::Slow, "{chosen:?}");
        }
    }

    #[test]
    fn of_several_cards_is_told_which_is_taken_and_why() {
        let card = |number: u8| way("verbs;ofi_rxm", ["a", "b", "c"][usize::from(number)], Some(Link::Up));
        let mut survey = survey(vec![card(0), card(1), card(2)], Some(1)).unwrap();
        let near = |cpus: &str, distance| NearDomains { local_cpus: Some(cpus.to_owned()), distance };
        survey.near = vec![near("0-7", 2), near("8-15", 1), near("0-7", 2)];
        let told = |survey: &LibfabricSurvey| checks(&Ok(survey.clone()), &NetworkRequest::Named(None), &[]);
        let text = told(&survey);
        let chosen = &find(&text, "chosen").what;
        assert!(
            chosen.ends_with("; of its cards the nearest to the cpus that this process may run on"),
            "{chosen}"
        );
        let lines: Vec<&str> = text.iter().map(|check| check.what.as_str()).collect();
        let of_b =
            "b (0000:3b:00.0, InfiniBand, 200 Gbit/s, up, nearest to cpus 8-15, distance 1): would be used";
        assert!(lines.contains(&of_b), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.starts_with("a, c ") && line.contains("distance 2")),
            "{lines:?}"
        );
        survey.near[1] = near("8-15", 2);
        survey.rails = vec![survey.found[2].clone()];
        let text = told(&survey);
        let chosen = &find(&text, "chosen").what;
        assert!(
            chosen.contains("; 2 more as near, which the processes of a host take in turn; large"),
            "{chosen}"
        );
        assert!(text.iter().any(|check| check.what.ends_with("would help with large messages")), "{text:?}");
    }

    #[test]
    fn nothing_that_serves_has_a_remedy_where_it_matters() {
        let card = ["mlx5_0".to_owned()];
        for (asked, cards, state, remedy) in [
            (NetworkRequest::Sought, &[][..], State::Absent, None),
            (NetworkRequest::Sought, &card[..], State::Slow, Some("install what the cards need")),
            (NetworkRequest::Named(None), &card[..], State::Broken, Some("install what the cards need")),
            (
                NetworkRequest::Named(None),
                &[][..],
                State::Broken,
                Some("for a test of libfabric, WEFT_FABRIC='libfabric:tcp;ofi_rxm'"),
            ),
        ] {
            let checks = checks(&survey(software(), None), &asked, cards);
            let chosen = find(&checks, "chosen");
            assert_eq!(chosen.state, state, "{chosen:?}");
            let told = chosen.remedy.as_deref();
            assert_eq!(told.is_some(), remedy.is_some(), "{chosen:?}");
            assert!(remedy.is_none_or(|remedy| told.unwrap().contains(remedy)), "{chosen:?}");
        }
        let named = NetworkRequest::Named(Some("verbs".to_owned()));
        let checks = checks(&survey(software(), None), &named, &[]);
        assert!(find(&checks, "chosen").what.contains("no provider `verbs`"), "{checks:?}");
    }

    #[test]
    fn no_library_is_a_line_and_broken_only_where_it_is_asked_for() {
        let error = "libfabric: libfabric.so.1 cannot be loaded: no such file\nInstall it.".to_owned();
        let card = ["mlx5_0".to_owned()];
        for (asked, cards, state, remedy) in [
            (NetworkRequest::Sought, &[][..], State::Absent, None),
            (NetworkRequest::Sought, &card[..], State::Slow, Some("Install it.")),
            (NetworkRequest::LeftOut, &card[..], State::Absent, None),
            (NetworkRequest::Named(None), &[][..], State::Broken, Some("Install it.")),
        ] {
            let checks = checks(&Err(error.clone()), &asked, cards);
            let library = find(&checks, "library");
            assert_eq!((library.state, library.remedy.as_deref()), (state, remedy), "{library:?}");
            assert!(library.what.contains("libfabric.so.1 cannot be loaded"), "{library:?}");
            assert_eq!(checks.len(), 2);
        }
    }
}
